"""What files of episodes add to the site."""

from environments.features import Feature

FEATURE = Feature(urls="episodes.transfer.urls", episode_formats="episodes.transfer.formats.MENU")
