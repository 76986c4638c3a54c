"""The `planloop` command: one application, a module of commands for each kind of user."""

import typer

from planloop import audit, jobs, operate

app = typer.Typer(
    name="planloop",
    help="Agents act, every step is an event, and everything else is a fold over the log.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

app.command()(operate.up)
app.command()(operate.down)
app.command()(operate.status)
app.command()(operate.gateway)
app.command()(jobs.run)
app.command(name="import")(jobs.import_)
app.command()(jobs.process)
app.command()(jobs.train)
app.command()(audit.sql)
app.command()(audit.replay)
app.command()(audit.verify)
app.add_typer(audit.dead_letters, name="dead-letters")
