"""A command that has commands."""

from typing import Any

from typer.core import TyperGroup

from f2stnet.registry import did_you_mean

Resolved = tuple[str | None, Any, list[str]]  # a command's name, the command, the words after it


class Group(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Resolved:
        """A typing error is answered with what it looks like, once: click and typer would both do so."""
        if not args[0].startswith("-") and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], self.commands)}")
        return super().resolve_command(ctx, args)
