"""All settings, in sections. The defaults are SQLite in `var/`, loopback only, and no accounts."""

from __future__ import annotations

import secrets
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from environments import __version__
from orsweb.env import (
    env_addresses,
    env_bool,
    env_choice,
    env_cluster_address,
    env_environment_secrets,
    env_fernet_keys,
    env_int,
    env_keys,
    env_list,
    env_path_prefix,
    env_seconds,
    env_secret,
    env_secrets,
    env_session_hosts,
    env_share,
    env_str,
    env_traces,
    env_url,
)
from orsweb.pages.admin_look import UNFOLD  # noqa: F401 - read by the admin
from orsweb.private_files import (
    BASE_DIR,
    IS_CHECKOUT,
    data_directory,
    make_private,
    private_directory,
    private_file,
)

# --- where data lives -----------------------------------------------------------------------------


DATA_DIR = data_directory()
# on the data's disk: /tmp may be memory
FILE_UPLOAD_TEMP_DIR = private_directory(DATA_DIR / "uploads")
SECRET_KEY = env_secret("ORSWEB_SECRET_KEY")
if not SECRET_KEY:  # it is generated once
    _file = private_file(DATA_DIR / "secret_key", secrets.token_urlsafe(50))
    SECRET_KEY = _file.read_text().strip()

# --- who may reach it -----------------------------------------------------------------------------

ORSWEB_API_KEYS = env_keys("ORSWEB_API_KEYS")
ORSWEB_REQUIRE_KEYS = env_bool("ORSWEB_REQUIRE_KEYS")
ORSWEB_ALLOWED_HOSTS = env_list("ORSWEB_ALLOWED_HOSTS")
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
ALLOWED_HOSTS = LOCAL_HOSTS + ORSWEB_ALLOWED_HOSTS
DEBUG = env_bool("ORSWEB_DEBUG")
ORSWEB_HOST = env_str("ORSWEB_HOST", "127.0.0.1")
ORSWEB_PORT = env_int("ORSWEB_PORT", 8080, maximum=65_535)
# servers of this machine, on one port
ORSWEB_PROCESSES = env_int("ORSWEB_PROCESSES", 1, minimum=1, maximum=256)
ORSWEB_CLUSTER = env_cluster_address(  # where other servers of the same database reach this one
    "ORSWEB_CLUSTER",
    # while they hand over, there are twice as many
    ports=1 if ORSWEB_PROCESSES == 1 else 2 * ORSWEB_PROCESSES,
)
FORWARDED_ALLOW_IPS = env_addresses("FORWARDED_ALLOW_IPS", "127.0.0.1")
# where a proxy has this server; see server/path_prefix.py
ORSWEB_PATH_PREFIX = env_path_prefix("ORSWEB_PATH_PREFIX")
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = ORSWEB_PATH_PREFIX or "/"
# Browsers also send what another Django application at the root of the host has set: its cookies
# need other names.
_COOKIE_SUFFIX = ORSWEB_PATH_PREFIX.replace("/", "_")
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"sessionid{_COOKIE_SUFFIX}", f"csrftoken{_COOKIE_SUFFIX}"

ORSWEB_CLIENT_TIMEOUT = env_seconds("ORSWEB_CLIENT_TIMEOUT", 30.0)
ORSWEB_MAX_CONNECTIONS_PER_ADDRESS = env_int(
    "ORSWEB_MAX_CONNECTIONS_PER_ADDRESS", 20_000, minimum=1
)
ORSWEB_MAX_STREAMS_PER_KEY = env_int("ORSWEB_MAX_STREAMS_PER_KEY", 1000, minimum=1)
ORSWEB_MAX_STREAMS_PER_ADDRESS = env_int("ORSWEB_MAX_STREAMS_PER_ADDRESS", 2000, minimum=1)

# --- single sign-on -------------------------------------------------------------------------------

ORSWEB_OIDC_ISSUER = env_url("ORSWEB_OIDC_ISSUER")
ORSWEB_OIDC_CLIENT_ID = env_str("ORSWEB_OIDC_CLIENT_ID")
ORSWEB_OIDC_CLIENT_SECRET = env_secret("ORSWEB_OIDC_CLIENT_SECRET")
ORSWEB_OIDC_SCOPES = env_str("ORSWEB_OIDC_SCOPES", "openid email profile")
ORSWEB_OIDC_GROUPS_CLAIM = env_str("ORSWEB_OIDC_GROUPS_CLAIM", "groups")
ORSWEB_OIDC_NAME = env_str("ORSWEB_OIDC_NAME", "single sign-on")
if ORSWEB_OIDC_ISSUER and not (ORSWEB_OIDC_CLIENT_ID and ORSWEB_OIDC_CLIENT_SECRET):
    raise ImproperlyConfigured(
        "ORSWEB_OIDC_ISSUER needs ORSWEB_OIDC_CLIENT_ID and ORSWEB_OIDC_CLIENT_SECRET too."
    )
if ORSWEB_OIDC_ISSUER and find_spec("mozilla_django_oidc") is None:
    raise ImproperlyConfigured(
        "ORSWEB_OIDC_ISSUER needs a package: pip install 'mozilla-django-oidc>=5,<6'."
    )
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # refuses before a password is checked
    "django.contrib.auth.backends.ModelBackend",
]
if ORSWEB_OIDC_ISSUER:
    AUTHENTICATION_BACKENDS.append("orsweb.accounts.single_sign_on.SignOnBackend")

# --- live play ------------------------------------------------------------------------------------

MAX_QUOTA = 10**15
ORSWEB_ENVIRONMENTS = env_list("ORSWEB_ENVIRONMENTS")
ORSWEB_BUNDLED_ENVIRONMENTS = [
    "environments.builtin.math:Math",
    "environments.builtin.guess:Guess",
    "environments.builtin.code:Code",
    "environments.builtin.shell:Shell",
    "environments.builtin.web:Web",
    "environments.builtin.chart:Chart",
    "environments.builtin.maze:Maze",
]
ORSWEB_NEW_ENVIRONMENTS_PRIVATE = env_bool("ORSWEB_NEW_ENVIRONMENTS_PRIVATE")
ORSWEB_KEEPALIVE = env_seconds("ORSWEB_KEEPALIVE", 10.0)
ORSWEB_SESSION_TIMEOUT = env_seconds("ORSWEB_SESSION_TIMEOUT", 900.0)
ORSWEB_RESULT_LINGER = env_seconds("ORSWEB_RESULT_LINGER", 60.0)
ORSWEB_SETUP_WAIT = env_seconds("ORSWEB_SETUP_WAIT", 300.0)
# time to come back for a person who closed the page
ORSWEB_PLAY_GRACE = env_seconds("ORSWEB_PLAY_GRACE", 120.0)
ORSWEB_TOOL_TIMEOUT = env_seconds("ORSWEB_TOOL_TIMEOUT", None)
ORSWEB_SHUTDOWN_TIMEOUT = env_seconds("ORSWEB_SHUTDOWN_TIMEOUT", 30.0)
# for a step of the check, and for several new servers
ORSWEB_RELOAD_LIMIT = env_seconds("ORSWEB_RELOAD_LIMIT", 120.0)
# for sessions that the next server cannot go on with
ORSWEB_RELOAD_WAIT = env_seconds("ORSWEB_RELOAD_WAIT", 30.0)
# the first one encrypts secrets of live sessions
ORSWEB_SECRETS_KEYS = env_fernet_keys("ORSWEB_SECRETS_KEY")
ORSWEB_ENVIRONMENT_SECRETS = env_environment_secrets("ORSWEB_ENVIRONMENT_SECRETS_FILE")
# clients give up after 30 s without an answer
ORSWEB_STARTING_SILENCE = env_seconds("ORSWEB_STARTING_SILENCE", 20.0)
ORSWEB_REMOTE_SILENCE = env_seconds("ORSWEB_REMOTE_SILENCE", 30.0)
ORSWEB_REMOTE_KEYS = env_secrets("ORSWEB_REMOTE_KEY_")
ORSWEB_IMPORT_SECONDS = env_seconds("ORSWEB_IMPORT_SECONDS", 60.0)  # CPU time, of other processes
ORSWEB_WORKERS = env_int("ORSWEB_WORKERS", 0, maximum=1024)  # processes for each environment
ORSWEB_WORKER_MEMORY_MB = env_int("ORSWEB_WORKER_MEMORY_MB", 0)  # of each of them; 0: no limit
# without another request; 0: no limit
ORSWEB_WORKER_CPU_SECONDS = env_int("ORSWEB_WORKER_CPU_SECONDS", 0)
ORSWEB_SANDBOXES = env_str("ORSWEB_SANDBOXES")  # directory of images and files; empty: no sandboxes
ORSWEB_SANDBOX_GB = env_int("ORSWEB_SANDBOX_GB", 4, minimum=1)  # memory of one
ORSWEB_SANDBOXES_AT_ONCE = env_int("ORSWEB_SANDBOXES_AT_ONCE", 8, minimum=1)
ORSWEB_SESSION_HOSTS = env_session_hosts("ORSWEB_SESSION_HOSTS")
ORSWEB_MAX_SESSIONS = env_int("ORSWEB_MAX_SESSIONS", 10_000, minimum=1)
# quotas of every key that has none of its own; 0: no limit
ORSWEB_QUOTA_REQUESTS = env_int("ORSWEB_QUOTA_REQUESTS", 0, maximum=MAX_QUOTA)  # a minute
ORSWEB_QUOTA_SESSIONS = env_int("ORSWEB_QUOTA_SESSIONS", 0, maximum=MAX_QUOTA)
ORSWEB_QUOTA_CALLS = env_int("ORSWEB_QUOTA_CALLS", 0, maximum=MAX_QUOTA)  # at the same time
ORSWEB_QUOTA_STEPS = env_int("ORSWEB_QUOTA_STEPS", 0, maximum=MAX_QUOTA)  # of an episode
ORSWEB_QUOTA_SECONDS = env_int("ORSWEB_QUOTA_SECONDS", 0, maximum=MAX_QUOTA)  # of an episode
ORSWEB_QUOTA_BYTES = env_int("ORSWEB_QUOTA_BYTES", 0, maximum=MAX_QUOTA)  # recorded on a day
# clients give up after 30 s without an answer
ORSWEB_QUOTA_WAIT = env_seconds("ORSWEB_QUOTA_WAIT", 20.0)
ORSWEB_QUOTA_CALL_WAIT = env_seconds("ORSWEB_QUOTA_CALL_WAIT", 300.0)
ORSWEB_MAX_BODY_BYTES = env_int("ORSWEB_MAX_BODY_BYTES", 32 * 1024 * 1024, minimum=1024)
ORSWEB_MAX_HEADER_BYTES = env_int("ORSWEB_MAX_HEADER_BYTES", 64 * 1024, minimum=1024)
ORSWEB_MAX_RESULT_BYTES = env_int("ORSWEB_MAX_RESULT_BYTES", 64 * 1024 * 1024, minimum=1024)
ORSWEB_MAX_UPLOAD_BYTES = env_int("ORSWEB_MAX_UPLOAD_BYTES", 512 * 1024 * 1024, minimum=1024)
# `upload_limits` refuses more with a page; Django's default is a bare 400 at 2.5 MB
DATA_UPLOAD_MAX_MEMORY_SIZE = ORSWEB_MAX_BODY_BYTES
ORSWEB_RETURN_ERRORS = env_choice(
    "ORSWEB_RETURN_ERRORS", "exception", ["none", "exception", "stacktrace"]
)
ORSWEB_TRACES = env_traces()
# where figures follow the record
ORSWEB_FOLLOWER = env_choice("ORSWEB_FOLLOWER", "process", ["process", "thread"])
ORSWEB_RECORD = "episodes.recording.recorder.Recorder"
if ORSWEB_TRACES:
    ORSWEB_RECORD = "orsweb.operations.tracing.TracedRecorder"
ORSWEB_VERSION = __version__
ORSWEB_BUILD_SHA = env_str("ORSWEB_BUILD_SHA")

# --- difficulty of tasks --------------------------------------------------------------------------

ORSWEB_BUCKET_HOPELESS = env_share("ORSWEB_BUCKET_HOPELESS", 0.0)
ORSWEB_BUCKET_SATURATED = env_share("ORSWEB_BUCKET_SATURATED", 1.0)
ORSWEB_BUCKET_ATTEMPTS = env_int("ORSWEB_BUCKET_ATTEMPTS", 4, minimum=1)
if ORSWEB_BUCKET_HOPELESS >= ORSWEB_BUCKET_SATURATED:
    raise ImproperlyConfigured(
        f"ORSWEB_BUCKET_HOPELESS={ORSWEB_BUCKET_HOPELESS} must be less than "
        f"ORSWEB_BUCKET_SATURATED={ORSWEB_BUCKET_SATURATED}."
    )

# --- retention ------------------------------------------------------------------------------------

ORSWEB_RETENTION_DAYS = env_int("ORSWEB_RETENTION_DAYS", 0, maximum=100_000)  # 0 keeps everything

# --- operations -----------------------------------------------------------------------------------

ORSWEB_READY_MAX_QUEUE = env_int("ORSWEB_READY_MAX_QUEUE", 10_000, minimum=1)
ORSWEB_READY_MAX_COMMIT_LAG = env_seconds("ORSWEB_READY_MAX_COMMIT_LAG", 30.0)
ORSWEB_READY_MAX_FOLLOWER_LAG = env_seconds("ORSWEB_READY_MAX_FOLLOWER_LAG", 600.0)
ORSWEB_READY_MIN_FREE_BYTES = env_int("ORSWEB_READY_MIN_FREE_BYTES", 256 * 1024 * 1024)

# --- database -------------------------------------------------------------------------------------


def _parse(url: str) -> dict[str, Any]:
    """Return the configuration that DATABASE_URL describes.

    Raises: ImproperlyConfigured, without showing the URL, which may hold a password.
    """
    try:
        config = dict(dj_database_url.parse(url, conn_max_age=None, conn_health_checks=True))
    except ValueError:
        raise ImproperlyConfigured(
            "DATABASE_URL is not the URL of a database; use postgresql://user:password@host/name, "
            "with special characters of the password percent-encoded, or sqlite:////path."
        ) from None
    kind = str(config["ENGINE"]).rpartition(".")[2]
    if kind not in ("postgresql", "sqlite3"):
        raise ImproperlyConfigured(
            f"DATABASE_URL names a {kind} database; use postgresql or sqlite."
        )
    return config


def _database() -> dict[str, Any]:
    if url := env_secret("DATABASE_URL"):
        config = _parse(url)
    else:
        file = private_file(DATA_DIR / "orsweb.sqlite3")
        config = {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "CONN_MAX_AGE": None}
    if config["ENGINE"].endswith("sqlite3"):
        make_private(str(config["NAME"]))
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
    return config


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- applications ---------------------------------------------------------------------------------

FEATURES = [
    "episodes.doctor",
    "episodes.people",
    "episodes.platform_api",
    "episodes.suites",
    "episodes.transfer",
]
INSTALLED_APPS = [
    "orsweb",  # before staticfiles, because its runserver extends daphne's
    "unfold.apps.BasicAppConfig",  # without its own admin site, which `LateAdminConfig` replaces
    "orsweb.apps.LateAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",  # its assets, and request.htmx
    "rest_framework",
    "drf_spectacular",
    "django_eventstream",
    "channels",
    "django_svelte_jsoneditor",  # its assets
    "axes",
    "environments",
    "episodes",
    *FEATURES,  # for their commands
]
MIDDLEWARE = [
    "orsweb.pages.middleware.Security",
    "orsweb.pages.middleware.ContentPolicy",
    "orsweb.pages.middleware.Common",
    "orsweb.pages.static_files.Assets",
    "orsweb.pages.middleware.CompressedPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    # last, because they are not async: the middleware before them then runs in their thread,
    # without further switches
    "orsweb.accounts.access.LocalOperatorMiddleware",
    "orsweb.accounts.access.ActorMiddleware",
    "orsweb.accounts.access.PagesNeedLoginMiddleware",
    "orsweb.pages.login_limits.BusyHashingMiddleware",
    "axes.middleware.AxesMiddleware",
    "episodes.people.seen_tasks.SeenTaskMiddleware",
    "episodes.dashboard.events.PositionMiddleware",
    "orsweb.pages.visible_pages.VisiblePagesMiddleware",
]
ROOT_URLCONF = "orsweb.urls"
ASGI_APPLICATION = "orsweb.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "orsweb.pages.templates.Templates",
        "DIRS": [BASE_DIR / "templates"] if IS_CHECKOUT else [],
        "APP_DIRS": True,
        "OPTIONS": {
            "libraries": {"suites": "episodes.suites.template_filters"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
REST_FRAMEWORK = {
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "orsweb",
    "DESCRIPTION": (
        "What was played on this server: environments, tasks, runs, episodes and their steps. "
        "Read-only, except for descriptions of runs."
    ),
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX_INSERT": "/api",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "PATH_CONVERTER_OVERRIDES": {"id": int},
    # without drf-spectacular's own, which names enums
    "POSTPROCESSING_HOOKS": ["episodes.api.openapi.without_marks"],
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword", "NumericPassword")
]
ORSWEB_KEY_ATTEMPTS = env_int("ORSWEB_KEY_ATTEMPTS", 60, minimum=1)
AXES_FAILURE_LIMIT = env_int("ORSWEB_LOGIN_ATTEMPTS", 10, minimum=1)
AXES_COOLOFF_TIME = timedelta(seconds=env_seconds("ORSWEB_LOGIN_LOCKOUT", 900.0))
AXES_LOCKOUT_PARAMETERS = ["username", "ip_address"]
AXES_LOCKOUT_CALLABLE = "orsweb.pages.login_limits.locked_out"
AXES_CLIENT_IP_CALLABLE = "orsweb.pages.login_limits.address_of"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # the page says how long it lasts
AXES_DISABLE_ACCESS_LOG = True  # the security log has the logins
AXES_ENABLE_ADMIN = AXES_VERBOSE = False
PASSWORD_HASHERS = [
    "orsweb.accounts.password_hashing.QueuedHasher",
]
LANGUAGE_CODE = "en-us"
# the pages are in English, and choosing a language takes a lock that all threads share
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True
APPEND_SLASH = True
LOGIN_URL = LOGOUT_REDIRECT_URL = "login"
LOGIN_REDIRECT_URL = "overview"
SESSION_ENGINE = "orsweb.accounts.hashed_sessions"

SILENCED_SYSTEM_CHECKS = [
    "security.W001",  # our own subclass of Django's SecurityMiddleware is in use
    # cookies are made `Secure` with each answer that goes through TLS: a server on loopback has
    # none
    "security.W012",
    "security.W016",
]
CSRF_FAILURE_VIEW = "orsweb.pages.error_pages.csrf_failure"
# Code that a transcript smuggles into a page cannot run or fetch anything.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'self'"],
        "frame-ancestors": ["'none'"],
    },
}
# Further sources in the admin, whose Alpine.js evaluates attributes of its templates and sets
# styles. Scripts within a page are refused there too.
ADMIN_CONTENT_SECURITY_POLICY = {"script-src": ["'unsafe-eval'"], "style-src": ["'unsafe-inline'"]}
EVENTSTREAM_CHANNELMANAGER_CLASS = "episodes.recording.live.Channels"

# --- static files ---------------------------------------------------------------------------------

STATIC_URL = f"{ORSWEB_PATH_PREFIX}/static/"
STATICFILES_DIRS = [BASE_DIR / "static"] if IS_CHECKOUT else []
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_ALLOW_ALL_ORIGINS = False

# --- logs -----------------------------------------------------------------------------------------

ORSWEB_LOG_LEVEL = env_choice("ORSWEB_LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR"])
ORSWEB_LOG_FORMAT = env_choice("ORSWEB_LOG_FORMAT", "console", ["console", "json"])
ORSWEB_SECURITY_LOG_FILE = env_str("ORSWEB_SECURITY_LOG_FILE")
# 0 keeps everything
ORSWEB_SECURITY_LOG_DAYS = env_int("ORSWEB_SECURITY_LOG_DAYS", 90, maximum=100_000)
LOGGING_CONFIG = "orsweb.logs.configure"
LOGGING = {
    "level": ORSWEB_LOG_LEVEL,
    "format": ORSWEB_LOG_FORMAT,
    "security_file": ORSWEB_SECURITY_LOG_FILE,
}
