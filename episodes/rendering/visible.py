from environments.display.visible import visible as visible
