"""`POST /v1/files`: the form is read and the file is stored while it arrives; a call that fails leaves nothing."""

from contextlib import aclosing
from dataclasses import dataclass, field

from quart import request

from fibatchd.plugin_api import (
    ApiError,
    Caller,
    Config,
    LimitedBody,
    Store,
    caller,
    front,
    new_id,
    rawjson,
    require_access,
    require_room,
)

from . import scripts
from .expiry import read_expiry
from .forms import Part, read_parts
from .scripts import File, Holdings, NewFile
from .writing import FileWriter, GivenUp

FORM_BYTES = 64 * 1024
"""What the form may have beside its file."""
LONGEST_FIELD = 1024
LONGEST_FILENAME = 1024
NAMELESS = "upload"

FILE = "file"
PURPOSE = "purpose"
ANCHOR = "expires_after[anchor]"
SECONDS = "expires_after[seconds]"
FIELDS = frozenset({PURPOSE, ANCHOR, SECONDS})


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an account may still upload. Sizes in bytes, `retention_s` is how long a file is kept unless it says so."""

    file_bytes: int
    storage_bytes: int
    uploads: int
    retention_s: float

    @classmethod
    def of(cls, config: Config) -> "Allowance":
        """Return what the configuration allows."""
        settings = config.batches
        return cls(
            settings.max_body_bytes,
            settings.max_file_storage_bytes,
            settings.max_uploads_per_hour,
            settings.input_file_retention_s,
        )

    def check(self, held: Holdings, size: int) -> None:
        """ApiError 429 or 413 where a file of this size may not be added to what is held."""
        if held.uploads >= self.uploads:
            message = f"At most {self.uploads} files may be uploaded in an hour"
            raise ApiError(429, message, code="too_many_uploads", retry=False)
        if size > self.file_bytes:
            raise ApiError(413, f"The file is larger than the limit of {self.file_bytes} bytes", code="file_too_large")
        if held.stored + size > self.storage_bytes:
            message = (
                f"With this file you would keep more than {self.storage_bytes} bytes of uploaded files; delete some"
            )
            raise ApiError(413, message, code="file_storage_full")


async def receive() -> File:
    """Receive the current request's file. Raises ApiError: 403 without batch access, 400 while file batches are switched
    off or for a form that is wrong, 413 and 429 over a limit."""
    who = caller()
    context = front().context
    require_access(who)
    if not context.config.is_on("files"):
        raise not_enabled()
    require_room()
    settings = context.config.batches
    allowance = Allowance.of(context.config)
    body = LimitedBody(request, settings.max_body_bytes + FORM_BYTES)
    held = await context.store.read(scripts.holdings, who.account.id)
    allowance.check(held, max(0, body.size - FORM_BYTES))
    form = UploadForm(context.store, who, allowance, held)
    try:
        async with aclosing(read_parts(request, body)) as parts:
            async for part in parts:
                await form.take(part)
        return await form.publish()
    except BaseException:
        await form.give_up()
        raise


def not_enabled() -> ApiError:
    """Return the refusal of all that creates something while the extension is switched off."""
    return ApiError(400, "File batches are not enabled", code="file_batches_disabled")


@dataclass(slots=True)
class UploadForm:
    """The form as far as it has come: its fields, and the file that is being written."""

    store: Store
    who: Caller
    allowance: Allowance
    held: Holdings
    fields: dict[str, bytearray] = field(default_factory=dict)
    writer: FileWriter | None = None
    _current: str = ""

    async def take(self, piece: Part | bytes) -> None:
        """Take the next piece of the form. Raises ApiError 400 or 413."""
        if isinstance(piece, Part):
            await self._begin(piece)
        elif self._current == FILE:
            assert self.writer is not None
            self.allowance.check(self.held, self.writer.size + len(piece))
            await self.writer.write(piece)
        else:
            value = self.fields[self._current]
            value += piece
            if len(value) > LONGEST_FIELD:
                raise refused(self._current, "too long")

    async def _begin(self, part: Part) -> None:
        self._current = part.name
        if part.name == FILE:
            if self.writer is not None:
                raise refused(FILE, "occurs twice; upload one file at a time")
            new = NewFile(new_id("file-"), self.who.account.id, scripts.INPUT, _filename(part.filename))
            self.writer = FileWriter(self.store, new)
            await self.writer.begin()
        elif part.name not in FIELDS:
            name = part.name[:100]
            raise refused(name, "unknown field", code="unknown_parameter")
        elif part.name in self.fields:
            raise refused(part.name, "occurs twice")
        else:
            self.fields[part.name] = bytearray()

    async def publish(self) -> File:
        """The form is whole: make its file visible. Raises ApiError."""
        self._check_purpose()
        keep_s = self._retention()
        if self.writer is None:
            raise refused(FILE, "missing, expected the file to upload", code="missing_required_parameter")
        written = await self.writer.close()
        published = await self.store.write(
            scripts.publish_upload,
            self.who.account.id,
            written,
            keep_s,
            self.allowance.storage_bytes,
            self.allowance.uploads,
        )
        if isinstance(published, Holdings):
            self.allowance.check(published, written.size)
        if not isinstance(published, File):
            raise GivenUp("the file was given up before it was published")
        return published

    async def give_up(self) -> None:
        """The call has failed: nothing of the file stays."""
        if self.writer is not None:
            await self.writer.give_up()

    def _check_purpose(self) -> None:
        purpose = self._text(PURPOSE)
        if purpose is None:
            raise refused(PURPOSE, "missing, expected batch", code="missing_required_parameter")
        if purpose != scripts.INPUT:
            raise refused(PURPOSE, "only files with the purpose batch can be uploaded")

    def _retention(self) -> float:
        anchor, seconds = self._text(ANCHOR), self._text(SECONDS)
        if anchor is None and seconds is None:
            return self.allowance.retention_s
        number = int(seconds) if seconds and seconds.isascii() and seconds.isdigit() and len(seconds) < 10 else seconds
        return read_expiry({"anchor": anchor, "seconds": number}, "expires_after")

    def _text(self, name: str) -> str | None:
        value = self.fields.get(name)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise refused(name, "not valid UTF-8") from None


def refused(param: str, why: str, code: str = "invalid_value") -> ApiError:
    """Return the refusal of a form for one of its fields."""
    return ApiError(400, f"{param}: {why}", code=code, param=param)


def _filename(sent: str | None) -> str:
    if not sent:
        return NAMELESS
    if len(sent) > LONGEST_FILENAME or not rawjson.storable(sent):
        raise refused(FILE, f"its name must be at most {LONGEST_FILENAME} characters, without NUL")
    return sent
