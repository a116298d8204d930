"""Composes the HTTP API: the core's routes and the plugins', authentication before all of them, errors behind."""

from collections.abc import Callable

from fibatchd.context import BatchInput, Context, Rerun
from fibatchd.plugin_loader import Plugins
from fibatchd.web import batches, health, interactive, models, openapi, results
from fibatchd.web.account.routes import blueprints as account_blueprints
from fibatchd.web.admin.routes import blueprint as admin_blueprint
from fibatchd.web.auth import authenticate
from fibatchd.web.errors import ErrorAnswers
from fibatchd.web.exchange import Exchange
from fibatchd.web.front import Front
from fibatchd.web.guards import ErrorBody, GuardedQuart
from fibatchd.web.inline import InlineBatches
from fibatchd.web.throughput import Throughput
from fibatchd.web.traffic import Traffic


class Api(GuardedQuart):
    """The app. `error_body` writes the errors that are answered below it, in the same shapes; `traffic` counts, `throughput`
    is a service."""

    asgi_http_class = Exchange
    error_body: ErrorBody
    traffic: Traffic
    throughput: Throughput


def create_app(context: Context, plugins: Plugins, *, ready: Callable[[], bool]) -> Api:
    """Return the app. `ready` says whether the daemon takes work now."""
    app = Api("fibatchd", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    app.extensions["fibatchd"] = front = Front(context, ready, plugins.hook.fibatchd_identify(context=context))
    app.traffic, app.throughput = front.traffic, front.throughput
    errors = ErrorAnswers(plugins.hook.fibatchd_error_shapes())
    app.error_body = errors.body
    app.register_error_handler(Exception, errors.handle)
    app.before_request(authenticate)
    inline = InlineBatches(context)
    forms: list[BatchInput] = [inline]
    for found in reversed(plugins.hook.fibatchd_batch_inputs(context=context)):
        forms += found
    reruns: list[Rerun] = [inline]
    for ways in plugins.hook.fibatchd_reruns(context=context):
        reruns += ways
    app.register_blueprint(batches.blueprint(forms))
    for core in (results, interactive, models, health):
        app.register_blueprint(core.blueprint)
    for routes in (*account_blueprints(reruns), admin_blueprint()):
        app.register_blueprint(routes)
    app.register_blueprint(openapi.blueprint(plugins))
    for contributed in plugins.hook.fibatchd_routes(context=context):
        for blueprint in contributed:
            app.register_blueprint(blueprint)
    return app
