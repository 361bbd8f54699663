"""What the clients of a service raise.

ServiceError            the service cannot be reached, refuses, or fails
├── RefusedError        it refuses the request for what is in it, also a ValueError: the message says what to change
└── AwayError           it cannot be reached, or has no capacity (429, 503): the same may work later
"""


class ServiceError(Exception):
    """The service cannot be reached, refuses, or fails.

    Attributes:
        status: Of the answer; None where there was none.
        code: The service's name for the error.
        param: The field of the request at fault.
        request_id: By which the service's log names the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param
        self.request_id = request_id


class RefusedError(ServiceError, ValueError):
    """The service refuses the request as it is; the message says what to change."""


class AwayError(ServiceError):
    """The service cannot be reached, or has no capacity: the same may work later."""
