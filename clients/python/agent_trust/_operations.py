"""Written by clients/node/scripts/generate-python.ts from docs/openapi.json. Do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal, NotRequired, TypeAlias, TypedDict


class ErrorBodyErrorDetails(TypedDict):
    """Where in an expression its fault is."""

    # From 1.
    line: int
    # From 1, in characters.
    column: int
    # Text for people.
    message: str


class ErrorBodyError(TypedDict):
    """What went wrong."""

    # For programs to branch on; a closed list, see docs/errors.md.
    code: Literal["invalid_request", "invalid_json", "body_too_large", "unauthorized", "insufficient_scope", "account_suspended", "not_an_approver", "passport_not_found", "gate_not_found", "shadow_not_found", "catalog_not_found", "backtest_not_found", "policy_not_found", "issuer_not_found", "template_not_found", "attestation_not_found", "approval_not_found", "hold_not_found", "mcp_pin_not_found", "wallet_not_found", "webhook_not_found", "channel_not_found", "delivery_not_found", "api_key_not_found", "account_not_found", "route_not_found", "agent_id_conflict", "passport_state_conflict", "approval_already_resolved", "mcp_pin_state_conflict", "mcp_pins_full", "outcome_conflict", "amount_exceeds_hold", "spend_limit_exceeded", "backtest_running", "channel_name_conflict", "idempotency_conflict", "proof_not_ready", "precondition_failed", "unsupported_media_type", "rate_limited", "internal_error", "overloaded", "service_unavailable"]
    # Text for people.
    message: str
    # The HTTP status.
    status: int
    # Names the request; also in `X-Request-Id`.
    request_id: str
    # The field or parameter at fault, if there is one.
    param: NotRequired[str]
    # Where in an expression its fault is.
    details: NotRequired[ErrorBodyErrorDetails]


class ErrorBody(TypedDict):
    # What went wrong.
    error: ErrorBodyError
    # Of a refused security event: the code of RFC 8935 §2.4.
    err: NotRequired[str]
    # Of a refused security event: the message, for its transmitter.
    description: NotRequired[str]


class ReferenceIssue(TypedDict):
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # Id of the issuer, `iss_…`. Default: the account's own default issuer.
    issuer_id: NotRequired[str | None]
    # Name of the agent, for people. Default: the `agent_id`.
    agent_name: NotRequired[str | None]
    # How long the passport is valid, in days. Default 90.
    expires_in_days: NotRequired[int | None]
    # How long it is valid: a number with `s`, `m`, `h` or `d`.
    expires_in: NotRequired[str | None]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # Free-form, kept and answered as sent. At most 16 KiB of JSON.
    metadata: NotRequired[Mapping[str, Any] | None]
    # The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
    # passport is also issued with the public JWK of such a key.
    public_key: NotRequired[str | Mapping[str, Any] | None]
    # Limits of this passport, at every gate.
    constraints: NotRequired[PassportConstraints | None]
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: NotRequired[str | None]
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: NotRequired[str | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]


class MachineIssue(TypedDict):
    # Id of the issuer, `iss_…`.
    issuer_id: str
    # Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`.
    subject: Mapping[str, Any]
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # Limits of this passport, at every gate.
    constraints: NotRequired[PassportConstraints | None]
    # When it expires; null if it never expires.
    expires_at: NotRequired[str | None]
    # The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
    # passport is also issued with the public JWK of such a key.
    public_key: NotRequired[str | Mapping[str, Any] | None]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: NotRequired[str | None]
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: NotRequired[str | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]


class UnattendedIssue(TypedDict):
    # Kind of the agent, in the unattended variant; kept in `subject`.
    agent_type: NotRequired[str | None]
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: NotRequired[str | None]
    # Name of the agent, for people. Default: the `agent_id`.
    agent_name: NotRequired[str | None]
    # How long it is valid: a number with `s`, `m`, `h` or `d`.
    expires_in: NotRequired[str | None]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: NotRequired[str | None]
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: NotRequired[str | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]


class Passport(TypedDict):
    # Id of the passport, `pass_…`.
    passport_id: str
    # The id of this object under its short name.
    id: str
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # Name of the agent, for people. Default: the `agent_id`.
    agent_name: str
    # Id of the issuer, `iss_…`.
    issuer_id: str
    # Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`.
    subject: Mapping[str, Any]
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # Limits that apply to every decision.
    constraints: Mapping[str, Any]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: Literal["L1", "L2", "L3"]
    # The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
    # passport is also issued with the public JWK of such a key.
    public_key: str | None
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: str | None
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: str | None
    # The wallet that pays for the passport; null: none.
    wallet_id: str | None
    # Current status.
    status: Literal["active", "suspended", "revoked", "expired"]
    # The suspensions that stand, oldest first; empty: none.
    suspended_by: Sequence[Suspension]
    # When the passport was issued.
    issued_at: str
    # When it was created.
    created_at: str
    # When it expires; null if it never expires.
    expires_at: str | None
    # Free-form, kept and answered as sent. At most 16 KiB of JSON.
    metadata: Mapping[str, Any]
    # Whether the passport is of another issuer: each token of its subject is a token of this passport.
    federated: bool
    # Domain that the issuer claims.
    issuer_domain: str | None
    # Number of PERMIT decisions for the passport.
    use_count: int
    # When it was last used; null if never.
    last_used_at: str | None
    # When the passport was revoked; null if it is not revoked.
    revoked_at: str | None
    # Why the passport was revoked.
    revocation_reason: str | None
    # Who revoked the passport, as in its audit entry; null if it is not revoked, or was revoked before the
    # service recorded this.
    revoked_by: Actor | None


class IssuedPassport(TypedDict):
    # Id of the passport, `pass_…`.
    passport_id: str
    # The id of this object under its short name.
    id: str
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # Name of the agent, for people. Default: the `agent_id`.
    agent_name: str
    # Id of the issuer, `iss_…`.
    issuer_id: str
    # Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`.
    subject: Mapping[str, Any]
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # Limits that apply to every decision.
    constraints: Mapping[str, Any]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: Literal["L1", "L2", "L3"]
    # The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
    # passport is also issued with the public JWK of such a key.
    public_key: str
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: str | None
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: str | None
    # Id of the wallet, `wal_…`.
    wallet_id: str | None
    # Current status.
    status: Literal["active", "suspended", "revoked", "expired"]
    # The suspensions that stand, oldest first; empty: none.
    suspended_by: Sequence[Suspension]
    # When the passport was issued.
    issued_at: str
    # When it was created.
    created_at: str
    # When it expires; null if it never expires.
    expires_at: str | None
    # Free-form, kept and answered as sent. At most 16 KiB of JSON.
    metadata: Mapping[str, Any]
    # The passport itself: a signed token (JWS), which the agent presents. A bearer credential, returned
    # only in this answer.
    jwt: str
    # The other half: `ed25519_private:` and base64url of the seed. Returned only in this answer and stored
    # nowhere; absent if the caller sent a public key.
    private_key: NotRequired[str]


class PassportListItem(TypedDict):
    # Id of the passport, `pass_…`.
    passport_id: str
    # The id of this object under its short name.
    id: str
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # Name of the agent, for people. Default: the `agent_id`.
    agent_name: str
    # Id of the issuer, `iss_…`.
    issuer_id: str
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: Literal["L1", "L2", "L3"]
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: str | None
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: str | None
    # Whether the passport is of another issuer: each token of its subject is a token of this passport.
    federated: bool
    # Id of the wallet, `wal_…`.
    wallet_id: str | None
    # Current status.
    status: Literal["active", "suspended", "revoked", "expired"]
    # The suspensions that stand, oldest first; empty: none.
    suspended_by: Sequence[Suspension]
    # When the passport was issued.
    issued_at: str
    # When it was created.
    created_at: str
    # When it expires; null if it never expires.
    expires_at: str | None


class PassportPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[PassportListItem]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class PassportRevocation(TypedDict):
    # Reason, kept for the record. Default `unspecified`.
    reason: NotRequired[str | None]


class RevocationPropagation(TypedDict):
    """How many of the sidecars that serve passports of this account have applied this change."""

    # Revision number of this change.
    revision: int
    # How many sidecars are connected.
    sidecars: int
    # How many of them have applied this change.
    acknowledged: int
    # Sidecars that were connected in the last minutes and are not now. They keep deciding on their last
    # known state, for as long as the trust level of the gate allows.
    silent: Sequence[str]


class Revocation(TypedDict):
    # Id of the passport, `pass_…`.
    passport_id: str
    # The id of this object under its short name.
    id: str
    # Current status.
    status: Literal["revoked"]
    # When the passport was revoked; null if it is not revoked.
    revoked_at: str
    # Who revoked the passport, as in its audit entry; null if it is not revoked, or was revoked before the
    # service recorded this.
    revoked_by: Actor | None
    # Reason, kept for the record.
    reason: str
    # How many of the sidecars that serve passports of this account have applied this change.
    propagation: RevocationPropagation


class Verification(TypedDict):
    # Whether the passport is valid now.
    valid: bool
    # Id of the passport, `pass_…`.
    passport_id: str
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: Literal["L1", "L2", "L3"]
    # Current status.
    status: Literal["active", "suspended", "revoked", "expired"]
    # When it expires; null if it never expires.
    expires_at: str | None
    # Whether the passport has expired.
    is_expired: bool
    # The same as `is_expired`.
    expired: bool
    # Whether the passport is revoked.
    is_revoked: bool
    # The same as `is_revoked`.
    revoked: bool
    # Most severe reason why the passport is invalid; null if it is valid.
    reason: Literal["revoked", "expired", "suspended", "owner_suspended", "issuer_suspended", "key_compromised", None]
    # When the passport was revoked; null if it is not revoked.
    revoked_at: str | None
    # Why the passport was revoked.
    revocation_reason: str | None


class PassportConstraintsRateLimits(TypedDict):
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[int | None]
    # Requests in a UTC hour.
    requests_per_hour: NotRequired[int | None]
    # Requests in a UTC day.
    requests_per_day: NotRequired[int | None]


class PassportConstraintsSpendLimits(TypedDict):
    # The most that one request may spend.
    per_transaction_usd: NotRequired[float | None]
    # The most that may be spent in a UTC day.
    daily_usd: NotRequired[float | None]
    # The most that may be spent in a UTC month.
    monthly_usd: NotRequired[float | None]
    # What a request without an amount and without a catalog price gets where a spend limit or
    # `approvals.above_usd` applies: `block` (default) is BLOCK `amount_missing`, `permit` counts it as 0.
    unpriced: NotRequired[Literal["block", "permit", None]]


class PassportConstraintsApprovals(TypedDict):
    # Requests that spend more than this.
    above_usd: NotRequired[float | None]
    # Requests for these permissions.
    permissions: NotRequired[Sequence[str] | None]
    # How long an approval stays pending, or an amount is held, in seconds. Default 3600.
    expires_in_s: NotRequired[int | None]


class PassportConstraints(TypedDict):
    # Requests per UTC calendar window.
    rate_limits: NotRequired[PassportConstraintsRateLimits | None]
    # Money, in USD with at most 6 decimals.
    spend_limits: NotRequired[PassportConstraintsSpendLimits | None]
    # Domains that a request may target: `api.example.com` or `*.example.com`.
    allowed_domains: NotRequired[Sequence[str] | None]
    # Which requests a person must approve first.
    approvals: NotRequired[PassportConstraintsApprovals | None]
    # Whether the agent must sign each request with the key of its passport, and how far a signature counts
    # once. `required` is once per sidecar.
    proof_of_possession: NotRequired[Literal["off", "required"] | RequiredProof | None]
    # What requests must meet besides, in the order in which it is asked: expressions of CEL, see
    # docs/conditions.md. At most 32.
    conditions: NotRequired[Sequence[Condition] | None]


class GateConstraintsRateLimits(TypedDict):
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[int | None]
    # Requests in a UTC hour.
    requests_per_hour: NotRequired[int | None]
    # Requests in a UTC day.
    requests_per_day: NotRequired[int | None]
    # Whether all passports share the limit (`gate`, the default) or each has its own (`passport`).
    per: NotRequired[Literal["gate", "passport", "user", None]]


class GateConstraintsSpendLimits(TypedDict):
    # The most that one request may spend.
    per_transaction_usd: NotRequired[float | None]
    # The most that may be spent in a UTC day.
    daily_usd: NotRequired[float | None]
    # The most that may be spent in a UTC month.
    monthly_usd: NotRequired[float | None]
    # What a request without an amount and without a catalog price gets where a spend limit or
    # `approvals.above_usd` applies: `block` (default) is BLOCK `amount_missing`, `permit` counts it as 0.
    unpriced: NotRequired[Literal["block", "permit", None]]
    # Whether all passports share the limit (`gate`, the default) or each has its own (`passport`).
    per: NotRequired[Literal["gate", "passport", "user", None]]
    # The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8.
    alert_at: NotRequired[float | None]


class GateConstraintsPiiControls(TypedDict):
    # `log_only` permits and records the findings, `redact` removes the data, `block` blocks.
    mode: Literal["log_only", "redact", "block"]
    # Kinds of personal data that are looked for. Absent: all.
    types: NotRequired[Sequence[Literal["email", "phone", "payment_card", "iban", "us_ssn", "ip_address"]] | None]


class GateConstraintsApprovalsApprovers(TypedDict):
    # People with one of these roles. With neither roles nor users: all people who may answer.
    roles: NotRequired[Sequence[Literal["owner", "admin", "approver"]] | None]
    # These people, by `user_id`.
    users: NotRequired[Sequence[str] | None]
    # How many different people have to approve. Default 1.
    count: NotRequired[int | None]
    # Whether the person who made the passport, or the key that asks, is kept from answering. Default true.
    not_requester: NotRequired[bool | None]
    # Whether the person does not answer whose email address or `user_id` is the owner of the passport.
    not_owner: NotRequired[bool | None]
    # Whether people who could have opened the links of each other count as one, for `count` and
    # `not_requester`. Default false.
    independent: NotRequired[bool | None]


class GateConstraintsApprovals(TypedDict):
    # Requests that spend more than this.
    above_usd: NotRequired[float | None]
    # Requests for these permissions.
    permissions: NotRequired[Sequence[str] | None]
    # How long an approval stays pending, or an amount is held, in seconds. Default 3600.
    expires_in_s: NotRequired[int | None]
    # Who may answer the approvals of the gate. Absent: one person or API key with `approvals:resolve`.
    approvers: NotRequired[GateConstraintsApprovalsApprovers | None]
    # Whether each answer is signed with a passkey. Default false.
    passkey: NotRequired[bool | None]


class GateConstraintsHolds(TypedDict):
    # How long an approval stays pending, or an amount is held, in seconds. Default 3600.
    expires_in_s: NotRequired[int | None]
    # What becomes of a hold without an outcome: `settle` counts it as spent, `release` gives it back.
    on_expiry: NotRequired[Literal["settle", "release", None]]
    # A settlement above the hold: `refuse`, or `charge` the difference where limits have room.
    overrun: NotRequired[Literal["refuse", "charge", None]]


class GateConstraints(TypedDict):
    # Requests per UTC calendar window.
    rate_limits: NotRequired[GateConstraintsRateLimits | None]
    # Money, in USD with at most 6 decimals.
    spend_limits: NotRequired[GateConstraintsSpendLimits | None]
    # Domains that a request may target: `api.example.com` or `*.example.com`.
    allowed_domains: NotRequired[Sequence[str] | None]
    # What happens to personal data in requests.
    pii_controls: NotRequired[GateConstraintsPiiControls | None]
    # Which requests a person must approve first.
    approvals: NotRequired[GateConstraintsApprovals | None]
    # Ids of issuers that the gate trusts, and `own` for the issuers of the gate's own account; or `*` alone
    # for all issuers. Absent: the own issuers.
    trusted_issuers: NotRequired[Sequence[str] | None]
    # Whether the agent must sign each request with the key of its passport, and how far a signature counts
    # once. `required` is once per sidecar.
    proof_of_possession: NotRequired[Literal["off", "required"] | RequiredProof | None]
    # How amounts are held that are settled later.
    holds: NotRequired[GateConstraintsHolds | None]
    # What requests must meet besides, in the order in which it is asked: expressions of CEL, see
    # docs/conditions.md. At most 32.
    conditions: NotRequired[Sequence[Condition] | None]


class RequiredProof(TypedDict):
    # Always `required`.
    mode: Literal["required"]
    # Where a proof counts once: at each `sidecar` (default), or `exact`: over all sidecars and control
    # planes, for one call more.
    replay: NotRequired[Literal["sidecar", "exact", None]]


class Condition(TypedDict):
    # Its name in answers and records: 1 to 64 of `a-z0-9-`, unique in the list.
    id: str
    # An expression of CEL that has to be true. At most 4 KiB.
    require: str
    # Of which requests it is asked: permissions, or `<area>:*` for an area. Default: all.
    permissions: NotRequired[Sequence[str] | None]
    # What becomes of a request that does not meet it: `block` (default), or `approve`: a person is asked.
    otherwise: NotRequired[Literal["block", "approve", None]]
    # The `detail` of answers in which it is not met. At most 200 characters.
    message: NotRequired[str | None]


class ConditionCheckRequest(TypedDict):
    # An expression of CEL that has to be true. At most 4 KiB.
    require: str
    # Of which requests it would be asked. Default: all.
    permissions: NotRequired[Sequence[str] | None]
    # The gate that it is for, whose catalog and pinned tools are looked at.
    gate_id: NotRequired[str | None]


class ConditionCheckWarningsItem(TypedDict):
    # Of which permission it is said; null: of all.
    permission: str | None
    # Which of `reads` it is about; null: the permission.
    path: str | None
    # Text for people.
    message: str


class ConditionCheck(TypedDict):
    # JSON pointers to what it reads: `/request/…`, `/passport/…`, `/claims/…` or `/user`.
    reads: Sequence[str]
    # What no pinned tool of the gate takes, and permissions that its catalog lacks.
    warnings: Sequence[ConditionCheckWarningsItem]


class GateRoute(TypedDict):
    # Methods in capitals, such as `GET`. Default: every method.
    methods: NotRequired[Sequence[str] | None]
    # Path below the gate: `/orders`, `/orders/:id` (one segment), `/files/*` (the rest). Compared with the
    # decoded path.
    path: str
    # The permission that such a request needs.
    permission_key: str
    # What such a request spends, in USD. Default: it has no amount.
    amount_usd: NotRequired[float | None]


class GateCreation(TypedDict):
    # Name, for people.
    name: str
    # Text for people.
    description: NotRequired[str | None]
    # Minimum trust tier of a passport.
    trust_level: NotRequired[Literal["L1", "L2", "L3", None]]
    # The same as `trust_level`.
    trust_profile: NotRequired[Literal["L1", "L2", "L3", None]]
    # Limits that apply to every decision.
    constraints: NotRequired[Mapping[str, Any] | None]
    # Which permission a request to `gate_url` needs, by its method and path. The first route that fits
    # counts. At most 256.
    routes: NotRequired[Sequence[GateRoute] | None]
    # Id of the template, `tmpl_…`, or the name of a built-in one.
    template_id: NotRequired[str | None]
    # What the gate offers, and at what price.
    catalog: NotRequired[CatalogPublication | None]
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any] | None]


class NewGate(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # The id of this object under its short name.
    id: str
    # URL of the gate itself, for proxies.
    gate_url: str
    # Current status.
    status: Literal["active"]
    # When it was created.
    created_at: str
    # When it was last changed.
    updated_at: str
    # Who made the last change of the gate or its catalog, as in its audit entry; null if it was made before
    # the service recorded this.
    last_changed_by: Actor | None
    # Name, for people.
    name: str
    # Text for people.
    description: str | None
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # The same as `trust_level`.
    trust_profile: Literal["L1", "L2", "L3"]
    # Limits that apply to every decision.
    constraints: GateConstraints
    # Which permission a request to `gate_url` needs, by its method and path. The first route that fits
    # counts. At most 256; absent: none.
    routes: NotRequired[Sequence[GateRoute]]
    # What the gate offers, and at what price.
    catalog: NotRequired[Catalog]


class GatePatchStats(TypedDict):
    # Decisions at the gate.
    total_requests: int
    # Of these, PERMIT.
    permits: int
    # Of these, BLOCK.
    blocks: int
    # When the gate last decided; null if never.
    last_request_at: str | None


class GatePatch(TypedDict):
    # Name, for people.
    name: NotRequired[str | None]
    # Text for people.
    description: NotRequired[str | None]
    # Minimum trust tier of a passport.
    trust_level: NotRequired[Literal["L1", "L2", "L3", None]]
    # The same as `trust_level`.
    trust_profile: NotRequired[Literal["L1", "L2", "L3", None]]
    # Limits that apply to every decision.
    constraints: NotRequired[Mapping[str, Any] | None]
    # Replaces all routes; null or an empty array removes them.
    routes: NotRequired[Sequence[GateRoute] | None]
    # Merged into the labels; null removes one, or all.
    labels: NotRequired[Mapping[str, Any] | None]
    # Id of the gate, `gate_…`.
    gate_id: NotRequired[str | None]
    # The id of this object under its short name.
    id: NotRequired[str | None]
    # URL of the gate itself, for proxies.
    gate_url: NotRequired[str | None]
    # Current status.
    status: NotRequired[Literal["active"]]
    # When it was created.
    created_at: NotRequired[str | None]
    # When it was last changed.
    updated_at: NotRequired[str | None]
    # Who made the last change of the gate or its catalog, as in its audit entry; null if it was made before
    # the service recorded this.
    last_changed_by: NotRequired[Actor | None]
    # Counts of all decisions at the gate, without gate tests.
    stats: NotRequired[GatePatchStats | None]
    # The newest promotion of a shadow; absent: none.
    promoted: NotRequired[Promotion | None]


class Gate(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # The id of this object under its short name.
    id: str
    # URL of the gate itself, for proxies.
    gate_url: str
    # Current status.
    status: Literal["active"]
    # When it was created.
    created_at: str
    # When it was last changed.
    updated_at: str
    # Who made the last change of the gate or its catalog, as in its audit entry; null if it was made before
    # the service recorded this.
    last_changed_by: Actor | None
    # Name, for people.
    name: str
    # Text for people.
    description: str | None
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # The same as `trust_level`.
    trust_profile: Literal["L1", "L2", "L3"]
    # Limits that apply to every decision.
    constraints: GateConstraints
    # Which permission a request to `gate_url` needs, by its method and path. The first route that fits
    # counts. At most 256; absent: none.
    routes: NotRequired[Sequence[GateRoute]]


class GateWithStatsStats(TypedDict):
    """Counts of all decisions at the gate, without gate tests."""

    # Decisions at the gate.
    total_requests: int
    # Of these, PERMIT.
    permits: int
    # Of these, BLOCK.
    blocks: int
    # When the gate last decided; null if never.
    last_request_at: str | None


class GateWithStats(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # The id of this object under its short name.
    id: str
    # URL of the gate itself, for proxies.
    gate_url: str
    # Current status.
    status: Literal["active"]
    # When it was created.
    created_at: str
    # When it was last changed.
    updated_at: str
    # Who made the last change of the gate or its catalog, as in its audit entry; null if it was made before
    # the service recorded this.
    last_changed_by: Actor | None
    # Name, for people.
    name: str
    # Text for people.
    description: str | None
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # The same as `trust_level`.
    trust_profile: Literal["L1", "L2", "L3"]
    # Limits that apply to every decision.
    constraints: GateConstraints
    # Which permission a request to `gate_url` needs, by its method and path. The first route that fits
    # counts. At most 256; absent: none.
    routes: NotRequired[Sequence[GateRoute]]
    # Counts of all decisions at the gate, without gate tests.
    stats: GateWithStatsStats
    # The newest promotion of a shadow; absent: none.
    promoted: NotRequired[Promotion]


class GateListItemApprovers(TypedDict):
    # How many different people have to approve.
    count: int
    # Whether people who could have opened the links of each other count as one, for `count` and
    # `not_requester`. Default false.
    independent: bool
    # How many different people could answer now.
    able: int


class GateListItem(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # The id of this object under its short name.
    id: str
    # URL of the gate itself, for proxies.
    gate_url: str
    # Current status.
    status: Literal["active"]
    # When it was created.
    created_at: str
    # When it was last changed.
    updated_at: str
    # Who made the last change of the gate or its catalog, as in its audit entry; null if it was made before
    # the service recorded this.
    last_changed_by: Actor | None
    # Name, for people.
    name: str
    # Text for people.
    description: str | None
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # The same as `trust_level`.
    trust_profile: Literal["L1", "L2", "L3"]
    # Decisions at the gate.
    request_count: int
    # Of these, PERMIT.
    permit_count: int
    # Of these, BLOCK.
    block_count: int
    # Who answers its approvals; null: the gate names no approvers.
    approvers: GateListItemApprovers | None


class GatePage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[GateListItem]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class GateDeletion(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # The id of this object under its short name.
    id: str
    # Whether it is deleted.
    deleted: Literal[True]
    # When it was deleted.
    deleted_at: str


class ShadowPatch(TypedDict):
    # Minimum trust tier of a passport.
    trust_level: NotRequired[Literal["L1", "L2", "L3", None]]
    # Merged into the live constraints; null removes one, or all.
    constraints: NotRequired[Mapping[str, Any] | None]
    # Replaces all routes; null or an empty array removes them.
    routes: NotRequired[Sequence[GateRoute] | None]
    # How long it is tried, in seconds; at most 2592000.
    expires_in_s: NotRequired[int | None]


class Shadow(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # Limits that apply to every decision.
    constraints: GateConstraints
    # Which permission a request to `gate_url` needs, by its method and path. The first route that fits
    # counts. At most 256; absent: none.
    routes: NotRequired[Sequence[GateRoute]]
    # Hash of the policy, which `shadow` of records names.
    policy_hash: str
    # Hash of the live policy that it was made of.
    base_policy_hash: str
    # When it was created.
    created_at: str
    # When it ends, unless something ends it before.
    expires_at: str


class ShadowDeletion(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # Whether it is deleted.
    deleted: Literal[True]


class Promotion(TypedDict):
    # When the shadow became the policy.
    at: str
    # Hash of the policy that the shadow became.
    policy_hash: str
    # How long both were counted, in seconds.
    compared_s: int
    # What the shadow said in so long a time before; null: nothing to compare.
    predicted: OutcomeCounts | None
    # What the gate has decided since; null: nothing to compare.
    observed: OutcomeCounts | None


class OutcomeCounts(TypedDict):
    # Of these, PERMIT.
    permits: int
    # Of these, BLOCK.
    blocks: int
    # Requests for which a person was asked.
    suspends: int


class BacktestRequest(TypedDict):
    # Merged into the live constraints; null removes one, or all.
    constraints: NotRequired[Mapping[str, Any] | None]
    # Minimum trust tier of a passport.
    trust_level: NotRequired[Literal["L1", "L2", "L3", None]]
    # Replaces all routes; null or an empty array removes them.
    routes: NotRequired[Sequence[GateRoute] | None]
    # Records not older than this. Default: 30 days before `until`.
    since: NotRequired[str | None]
    # Records older than this. Default: now.
    until: NotRequired[str | None]


class Backtest(TypedDict):
    # Id of the backtest, `bt_…`.
    backtest_id: str
    # Id of the gate, `gate_…`.
    gate_id: str
    # Whether it runs, and how it ended.
    status: Literal["running", "done", "failed", "cancelled"]
    # How far it is, from 0 to 1.
    progress: float
    # Why it failed; else null.
    reason: Literal["control_plane_stopped", "control_plane_lost", "too_many_approvals", "too_many_counters", "too_long", "database_unavailable", "internal_error", None]
    # Records not older than this.
    since: str
    # Records older than this.
    until: str
    # When it was created.
    created_at: str
    # Null while it runs.
    ended_at: str | None
    # What the policy would have decided otherwise; null until it is done.
    report: Difference | None


class DifferenceByAgentNamedItem(TypedDict):
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str | None
    # How many decisions.
    count: int
    # Of those whose requests named an amount, together.
    amount_usd: float


class DifferenceByAgentOthers(TypedDict):
    """All that are not named, together."""

    # How many decisions.
    count: int
    # Of those whose requests named an amount, together.
    amount_usd: float


class DifferenceByAgent(TypedDict):
    """Those that differ, by agent."""

    # At most 100, those with the most first.
    named: Sequence[DifferenceByAgentNamedItem]
    # All that are not named, together.
    others: DifferenceByAgentOthers


class DifferenceByPermissionNamedItem(TypedDict):
    # The permission requested or offered: `<area>:<action>`.
    permission_key: str | None
    # How many decisions.
    count: int
    # Of those whose requests named an amount, together.
    amount_usd: float


class DifferenceByPermissionOthers(TypedDict):
    """All that are not named, together."""

    # How many decisions.
    count: int
    # Of those whose requests named an amount, together.
    amount_usd: float


class DifferenceByPermission(TypedDict):
    """Those that differ, by permission."""

    # At most 100, those with the most first.
    named: Sequence[DifferenceByPermissionNamedItem]
    # All that are not named, together.
    others: DifferenceByPermissionOthers


class DifferenceOverTimeStepsItem(TypedDict):
    # When the step begins.
    at: str
    # Decisions of the time.
    decisions: int
    # Those that would not.
    different: int
    # Those that the policy alone would have blocked.
    blocked: int


class DifferenceOverTime(TypedDict):
    """Steps of the time, those without a decision left out."""

    # Length of a step, in seconds.
    step_s: int
    # What was looked at, in order, up to the first fault.
    steps: Sequence[DifferenceOverTimeStepsItem]


class DifferenceUndecidedItem(TypedDict):
    # Why (docs/backtest.md).
    cause: str
    # How many decisions.
    count: int


Difference = TypedDict("Difference", {
    # Decisions of the time.
    "decisions": "int",
    # Those that would have been answered alike.
    "same": "int",
    # Those that would not.
    "different": "Sequence[DifferentDecisions]",
    # Those that differ, by agent.
    "by_agent": "DifferenceByAgent",
    # Those that differ, by permission.
    "by_permission": "DifferenceByPermission",
    # Steps of the time, those without a decision left out.
    "over_time": "DifferenceOverTime",
    # Ids of the newest 100 records that differ, newest first.
    "examples": "Sequence[str]",
    # Those of which records do not say it, by cause.
    "undecided": "Sequence[DifferenceUndecidedItem]",
    # Beginning of the time.
    "from": "str",
    # End of the time.
    "until": "str",
})


DifferentDecisions = TypedDict("DifferentDecisions", {
    # What was answered.
    "from": "Literal[\"PERMIT\", \"SUSPEND\", \"BLOCK\"]",
    # What the policy would have answered.
    "to": "Literal[\"PERMIT\", \"SUSPEND\", \"BLOCK\"]",
    # Of the answer that is no PERMIT; of two the new one.
    "reason": "Literal[\"passport_malformed\", \"passport_signature_invalid\", \"passport_not_yet_valid\", \"passport_expired\", \"passport_revoked\", \"passport_suspended\", \"passport_unknown_key\", \"mode_mismatch\", \"trust_level_insufficient\", \"issuer_untrusted\", \"issuer_keys_stale\", \"proof_missing\", \"proof_invalid\", \"proof_replayed\", \"permission_missing\", \"permission_not_granted\", \"permission_not_in_catalog\", \"condition_not_met\", \"condition_error\", \"domain_not_allowed\", \"domain_missing\", \"pii_detected\", \"currency_unsupported\", \"amount_missing\", \"spend_limit_exceeded\", \"rate_limit_exceeded\", \"quota_unavailable\", \"state_stale\", \"approval_required\", \"approval_denied\", \"approval_expired\", \"approval_used\", \"approval_mismatch\", \"approvals_pending_exceeded\", \"wallet_limit_exceeded\", \"wallet_frozen\", None]",
    # Id of the condition that decided, of the gate or the passport; absent or null: none did.
    "condition": "str | None",
    # How many decisions.
    "count": "int",
    # Of those whose requests named an amount, together.
    "amount_usd": "float",
})


class GatePolicy(TypedDict):
    # Version of the gate at which this policy came into force.
    policy_version: int
    # Hash of the policy that decided; null without a gate, or if the policy is not on record.
    policy_hash: str
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # When it came into force.
    since: str


class GatePolicyPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[GatePolicy]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class PolicyBody(TypedDict):
    # `content_hash` of the newest catalog; null: none was published.
    catalog_hash: str | None
    # Version of the newest catalog; null: none was published.
    catalog_version: int | None
    # Limits that apply to every decision.
    constraints: GateConstraints
    # Routes of the gate; empty: none.
    routes: Sequence[GateRoute]
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]


class Policy(TypedDict):
    # What is hashed: trust level, constraints, routes, and version and hash of the catalog.
    body: PolicyBody
    # Hash of the policy that decided; null without a gate, or if the policy is not on record.
    policy_hash: str
    # base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly.
    signature: str
    # `kid` of the key that signed, in the JWKS.
    signing_key_id: str
    # When a gate had this policy first.
    first_used_at: str


CatalogPublication: TypeAlias = "Mapping[str, Any]"


Catalog: TypeAlias = "Mapping[str, Any]"


class DiscoveryResultsItemPricing(TypedDict):
    # The unit of the price: a call, a minute, or a subscription.
    model: Literal["per_call", "per_minute", "subscription"]
    # The price in hundredths of the currency.
    price_cents: int
    # Currency of the price, such as USD.
    currency: str


class DiscoveryResultsItemSla(TypedDict):
    # Uptime; 10000 is 100 %.
    uptime_basis_points: int
    # Response time in milliseconds.
    response_time_ms: int


class DiscoveryResultsItemPlatformFee(TypedDict):
    # Hundredths of a percent.
    basis_points: int


class DiscoveryResultsItem(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # Name of the gate.
    gate_name: str
    # The permission requested or offered: `<area>:<action>`.
    permission_key: str
    # Name of the permission, for people.
    display_name: str | None
    # Text for people.
    description: str | None
    # Group of offers, such as `logistics`.
    category: str | None
    # Risk as rated by the publisher.
    risk_level: str | None
    # The `trust_level` of the gate.
    security_profile: Literal["L1", "L2", "L3"]
    # What it costs; null if it has no price.
    pricing: DiscoveryResultsItemPricing | None
    # Service level that the publisher promises; null if none.
    sla: DiscoveryResultsItemSla | None
    # The platform's share; null if none.
    platform_fee: DiscoveryResultsItemPlatformFee | None
    # Version of the catalog that contains the offer.
    catalog_version: int
    # `content_hash` of that catalog.
    catalog_content_hash: str
    # `signature` of that catalog.
    catalog_signature: str
    # `kid` of the key that signed, in the JWKS.
    signing_key_id: str


class Discovery(TypedDict):
    # What was found, in the requested order.
    results: Sequence[DiscoveryResultsItem]
    # Total number.
    total: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None
    # The query, with defaults filled in.
    query: Mapping[str, Any]


DecisionRequest: TypeAlias = "Mapping[str, Any]"


class GateTestRequest(TypedDict):
    # The token that the agent presented.
    passport_token: str
    # The requested permission.
    requested_action: NotRequired[str | None]
    # Other members of the `request` of a check, such as `domain` and `estimated_cost_usd`.
    context: NotRequired[DecisionRequest | None]


class GateTestRetry(TypedDict):
    """Whether and when to retry."""

    # Whether the same request can succeed later.
    retryable: bool
    # In how many milliseconds; null if unknown.
    after_ms: int | None


class GateTest(TypedDict):
    # What was decided.
    decision: Literal["allow", "block", "suspend"]
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str | None
    # Id of the gate, `gate_…`.
    gate_id: str
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str | None
    # When it was decided.
    timestamp: str
    # The checks made, in order. The last one determined the decision.
    guardrails_evaluated: Sequence[Literal["passport", "trust_level", "freshness", "issuer", "proof_of_possession", "permission", "conditions", "domain_allowlist", "pii_controls", "spend_limit", "rate_limit", "approval"]]
    # Whether the decision is PERMIT.
    all_passed: bool
    # Reason code; null for a PERMIT.
    reason: Literal["passport_malformed", "passport_signature_invalid", "passport_not_yet_valid", "passport_expired", "passport_revoked", "passport_suspended", "passport_unknown_key", "mode_mismatch", "trust_level_insufficient", "issuer_untrusted", "issuer_keys_stale", "proof_missing", "proof_invalid", "proof_replayed", "permission_missing", "permission_not_granted", "permission_not_in_catalog", "condition_not_met", "condition_error", "domain_not_allowed", "domain_missing", "pii_detected", "currency_unsupported", "amount_missing", "spend_limit_exceeded", "rate_limit_exceeded", "quota_unavailable", "state_stale", "approval_required", "approval_denied", "approval_expired", "approval_used", "approval_mismatch", "approvals_pending_exceeded", "wallet_limit_exceeded", "wallet_frozen", None]
    # The reason as a sentence.
    detail: NotRequired[str]
    # Whether and when to retry.
    retry: NotRequired[GateTestRetry]
    # The limit that the request would exceed, in its unit.
    limit: NotRequired[float]
    # How much of the limit was used already.
    used: NotRequired[float]
    # How much more was requested.
    requested: NotRequired[float]
    # When the window of the limit ends; null if it has no window.
    reset_at: NotRequired[str | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str]
    # Id of the condition that decided, of the gate or the passport; absent or null: none did.
    condition: NotRequired[str]
    # Where personal data was found, never the data itself.
    pii: NotRequired[Sequence[PiiFinding]]
    # With a PERMIT of a gate that redacts: the request without the personal data in it. Pass this on.
    request_redacted: NotRequired[Mapping[str, Any]]
    # What was replaced in `request_redacted`.
    redactions: NotRequired[Sequence[PiiFinding]]


class CheckBatch(TypedDict):
    # One result for each check, in the same order: a decision, or an error.
    results: Sequence[ServiceDecision | ErrorBody]


class CheckBatchRequest(TypedDict):
    # The checks; each is what the body of `check` would be.
    checks: Sequence[CheckRequest]


class CheckRequest(TypedDict):
    # The token that the agent presented.
    passport: str
    # What the agent intends to do. Other members than the documented ones count for the request hash and
    # PII controls only.
    request: DecisionRequest


class Permit(TypedDict):
    # What was decided.
    decision: Literal["PERMIT"]
    # Reason code; null for a PERMIT.
    reason: None
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str
    # The checks made, in order. The last one determined the decision.
    constraints_evaluated: Sequence[Literal["passport", "trust_level", "freshness", "issuer", "proof_of_possession", "permission", "conditions", "domain_allowlist", "pii_controls", "spend_limit", "rate_limit", "approval"]]
    # Where personal data was found, never the data itself.
    pii: NotRequired[Sequence[PiiFinding]]
    # With a PERMIT of a gate that redacts: the request without the personal data in it. Pass this on.
    request_redacted: NotRequired[Mapping[str, Any]]
    # What was replaced in `request_redacted`.
    redactions: NotRequired[Sequence[PiiFinding]]
    # The amount is held, and settled by an outcome.
    hold: NotRequired[PermitHold]
    # Signed statement of the sidecar about this answer. Only where the request asks for it.
    receipt: NotRequired[Receipt]


class Suspend(TypedDict):
    # What was decided.
    decision: Literal["SUSPEND"]
    # Reason code; null for a PERMIT.
    reason: Literal["approval_required"]
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: None
    # The checks made, in order. The last one determined the decision.
    constraints_evaluated: Sequence[Literal["passport", "trust_level", "freshness", "issuer", "proof_of_possession", "permission", "conditions", "domain_allowlist", "pii_controls", "spend_limit", "rate_limit", "approval"]]
    # Where personal data was found, never the data itself.
    pii: NotRequired[Sequence[PiiFinding]]
    # Id of the approval, `appr_…`.
    approval_id: str
    # The page of the console where a person answers.
    approval_url: NotRequired[str]
    # When it expires; null if it never expires.
    expires_at: str
    # Id of the condition that decided, of the gate or the passport; absent or null: none did.
    condition: NotRequired[str]
    # The reason as a sentence.
    detail: NotRequired[str]


class BlockRetry(TypedDict):
    """Whether and when to retry."""

    # Whether the same request can succeed later.
    retryable: bool
    # In how many milliseconds; null if unknown.
    after_ms: int | None


class Block(TypedDict):
    # What was decided.
    decision: Literal["BLOCK"]
    # Reason code; null for a PERMIT.
    reason: Literal["passport_malformed", "passport_signature_invalid", "passport_not_yet_valid", "passport_expired", "passport_revoked", "passport_suspended", "passport_unknown_key", "mode_mismatch", "trust_level_insufficient", "issuer_untrusted", "issuer_keys_stale", "proof_missing", "proof_invalid", "proof_replayed", "permission_missing", "permission_not_granted", "permission_not_in_catalog", "condition_not_met", "condition_error", "domain_not_allowed", "domain_missing", "pii_detected", "currency_unsupported", "amount_missing", "spend_limit_exceeded", "rate_limit_exceeded", "quota_unavailable", "state_stale", "approval_required", "approval_denied", "approval_expired", "approval_used", "approval_mismatch", "approvals_pending_exceeded", "wallet_limit_exceeded", "wallet_frozen"]
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str
    # The checks made, in order. The last one determined the decision.
    constraints_evaluated: Sequence[Literal["passport", "trust_level", "freshness", "issuer", "proof_of_possession", "permission", "conditions", "domain_allowlist", "pii_controls", "spend_limit", "rate_limit", "approval"]]
    # The reason as a sentence.
    detail: str
    # Whether and when to retry.
    retry: BlockRetry
    # The limit that the request would exceed, in its unit.
    limit: NotRequired[float]
    # How much of the limit was used already.
    used: NotRequired[float]
    # How much more was requested.
    requested: NotRequired[float]
    # When the window of the limit ends; null if it has no window.
    reset_at: NotRequired[str | None]
    # With `wallet_limit_exceeded`, for callers of the account of the wallet: the wallet whose limit it is.
    wallet_id: NotRequired[str]
    # Id of the condition that decided, of the gate or the passport; absent or null: none did.
    condition: NotRequired[str]
    # Where personal data was found, never the data itself.
    pii: NotRequired[Sequence[PiiFinding]]
    # Signed statement of the sidecar about this answer. Only where the request asks for it.
    receipt: NotRequired[Receipt]


ServiceDecision: TypeAlias = "Permit | Suspend | Block"


class Receipt(TypedDict):
    # Format of the receipt, `agent-trust.receipt.v1`.
    format: Literal["agent-trust.receipt.v1"]
    # What the sidecar states.
    statement: ReceiptStatement
    # Place of the statement in its turn, from 0.
    index: int
    # Number of statements in the turn, which one signature covers.
    size: int
    # Hashes that lead from the statement to the root of the turn, base64url.
    path: Sequence[str]
    # By the key of the sidecar over the root of the turn, base64url.
    signature: str
    # Whose key that is, signed by the control plane.
    certificate: SidecarCertificate
    # What the sidecar was last told; for the control plane alone. Null: nothing yet.
    history: ReceiptHistory | None


class ReceiptStatement(TypedDict):
    # Id of the record.
    attestation_id: str
    # The chain that the record will be in.
    chain_id: str
    # What was decided.
    decision: Literal["PERMIT", "BLOCK"]
    # Id of the gate; null: none.
    gate_id: str | None
    # When it was decided; of a PERMIT that is answered again: when it was answered.
    issued_at: str
    # The record is in the log by then.
    log_by: str
    # Reason of a BLOCK; null: a PERMIT.
    reason: str | None
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the request.
    request_hash: str


class ReceiptHistory(TypedDict):
    # What the control plane has told the sidecar.
    text: str
    # By a key of the control plane, so that nobody else makes one.
    mac: str


class SidecarCertificate(TypedDict):
    # The account of the sidecar.
    account_id: str
    # No receipt is issued later.
    expires_at: str
    # RFC 7638 thumbprint of `x`.
    kid: str
    # No receipt was issued earlier.
    not_before: str
    # What the key is for, `sidecar`.
    purpose: Literal["sidecar"]
    # Id of the sidecar, `side_…`.
    sidecar_id: str
    # The key of purpose `attestation` that has signed the certificate.
    signing_key_id: str
    # The public key of the sidecar, base64url of 32 bytes.
    x: str
    # Of the certificate, base64url; docs/receipts.md says over which text exactly.
    signature: str


class PiiFinding(TypedDict):
    # JSON pointer into the request.
    pointer: str
    # Kind of personal data.
    type: str


class ApprovalResolution(TypedDict):
    # Reason, for the record and for the agent's owner. At most 500 characters.
    note: NotRequired[str | None]
    # The browser's answer to `navigator.credentials.get` as its `toJSON()` writes it, where the gate asks
    # for passkeys.
    assertion: NotRequired[Mapping[str, Any] | None]


class ApprovalDisplayLinesItem(TypedDict):
    # What the value is.
    label: str
    # The value.
    value: str


class ApprovalDisplay(TypedDict):
    # What is asked, in one line.
    title: str
    # Details, in the order to show them.
    lines: Sequence[ApprovalDisplayLinesItem]
    # Where the request can be looked at; null if nowhere.
    url: str | None


class ApprovalAnswersItem(TypedDict):
    # The person.
    user_id: str
    # `approved` or `denied`.
    answer: Literal["approved", "denied"]
    # When it was given.
    at: str
    # What that person wrote; null if nothing.
    note: str | None
    # Whether it was signed with a passkey.
    signed: bool


class Approval(TypedDict):
    # Id of the approval, `appr_…`.
    approval_id: str
    # The page of the console where a person answers.
    approval_url: str
    # This resource of the API.
    approval_api_url: str
    # `approved` until it is used, denied or expired.
    status: Literal["pending", "approved", "denied", "expired", "used"]
    # The passport of the requesting agent.
    passport_id: str
    # The requesting agent, as its owner named it.
    agent_id: str
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: str | None
    # The gate of the request.
    gate_id: str
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the request.
    request_hash: str
    # The requested permission.
    permission_key: str | None
    # What the request would spend; null if it has no amount. Held until the approval ends.
    amount_usd: float | None
    # What is asked, as the resource server wrote it; null if it did not, and 90 days after the end.
    display: ApprovalDisplay | None
    # The condition that asks for it; null: another rule does. The first, of several.
    condition: str | None
    # When the request was made.
    created_at: str
    # Deadline to approve or deny; once approved, deadline to use the approval.
    expires_at: str
    # When it was approved or denied; null if it was not.
    resolved_at: str | None
    # The `key_id` or `user_id` that resolved it; null if nobody did.
    resolved_by: str | None
    # What that person wrote; null if nothing.
    note: str | None
    # What people have said, in the order in which they did. Answers that were taken back are left out.
    answers: Sequence[ApprovalAnswersItem]


class ApprovalDetailDisplayLinesItem(TypedDict):
    # What the value is.
    label: str
    # The value.
    value: str


class ApprovalDetailDisplay(TypedDict):
    # What is asked, in one line.
    title: str
    # Details, in the order to show them.
    lines: Sequence[ApprovalDetailDisplayLinesItem]
    # Where the request can be looked at; null if nowhere.
    url: str | None


class ApprovalDetailAnswersItem(TypedDict):
    # The person.
    user_id: str
    # `approved` or `denied`.
    answer: Literal["approved", "denied"]
    # When it was given.
    at: str
    # What that person wrote; null if nothing.
    note: str | None
    # Whether it was signed with a passkey.
    signed: bool
    # The name of the person today; null if the person was removed.
    name: str | None
    # The `key_id` or `user_id` that invited the person; null: nobody, or not known.
    invited_by: str | None
    # The name of that person or key today; null if there is none.
    invited_by_name: str | None
    # False if the person may not answer any more.
    counts: bool
    # What the passkey signed, and its public key; null if it signed nothing.
    assertion: AnswerProof | None


class ApprovalDetailYouPasskey(TypedDict):
    # The host of the service.
    rp_id: str
    # The caller's passkeys.
    credential_ids: Sequence[str]


class ApprovalDetailYou(TypedDict):
    """About the caller."""

    # Whether the caller may approve or deny now.
    may_answer: bool
    # Why not; null if the caller may.
    why_not: Literal["resolved", "answered", "scope", "api_key", "role", "not_named", "requester", "requester_unknown", "unconfirmed", "accepted_later", "one_person", "no_passkey", None]
    # The same in words, with what to do.
    message: str | None
    # Whether each answer is signed with a passkey.
    passkey: ApprovalDetailYouPasskey | None


class ApprovalDetail(TypedDict):
    # Id of the approval, `appr_…`.
    approval_id: str
    # The page of the console where a person answers.
    approval_url: str
    # This resource of the API.
    approval_api_url: str
    # `approved` until it is used, denied or expired.
    status: Literal["pending", "approved", "denied", "expired", "used"]
    # The passport of the requesting agent.
    passport_id: str
    # The requesting agent, as its owner named it.
    agent_id: str
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: str | None
    # The gate of the request.
    gate_id: str
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the request.
    request_hash: str
    # The requested permission.
    permission_key: str | None
    # What the request would spend; null if it has no amount. Held until the approval ends.
    amount_usd: float | None
    # What is asked, as the resource server wrote it; null if it did not, and 90 days after the end.
    display: ApprovalDetailDisplay | None
    # The condition that asks for it; null: another rule does. The first, of several.
    condition: str | None
    # When the request was made.
    created_at: str
    # Deadline to approve or deny; once approved, deadline to use the approval.
    expires_at: str
    # When it was approved or denied; null if it was not.
    resolved_at: str | None
    # The `key_id` or `user_id` that resolved it; null if nobody did.
    resolved_by: str | None
    # What that person wrote; null if nothing.
    note: str | None
    # What people have said, in the order in which they did. Answers that were taken back are left out.
    answers: Sequence[ApprovalDetailAnswersItem]
    # Amount of the request, in millionths of a USD; null if it had none.
    amount_micro_usd: int | None
    # The name of the person or key in `resolved_by` today; null if there is none.
    resolved_by_name: str | None
    # How many different people have to approve.
    answers_needed: int
    # How many more. 0 once it is resolved.
    answers_missing: int
    # Whether each answer is signed with a passkey.
    passkey: bool
    # The policy that signed answers name; null if none is signed.
    policy_hash: str | None
    # About the caller.
    you: ApprovalDetailYou


class AnswerProofPublicKey(TypedDict):
    # Key type (RFC 8037).
    kty: Literal["EC"]
    # Curve (RFC 8037).
    crv: Literal["P-256"]
    # base64url of the key, or of its first coordinate.
    x: str
    # base64url of the second coordinate, of an EC key.
    y: str


class AnswerProofPublicKey2(TypedDict):
    # Key type (RFC 8037).
    kty: Literal["OKP"]
    # Curve (RFC 8037).
    crv: Literal["Ed25519"]
    # base64url of the key, or of its first coordinate.
    x: str


class AnswerProofPublicKey3(TypedDict):
    # Key type (RFC 8037).
    kty: Literal["RSA"]
    # base64url of the modulus, of an RSA key.
    n: str
    # base64url of the exponent, of an RSA key.
    e: str


class AnswerProof(TypedDict):
    # The passkey, `pkey_…`.
    passkey_id: str
    # The id of the passkey.
    credential_id: str
    # The public key of the passkey, as a JWK.
    public_key: AnswerProofPublicKey | AnswerProofPublicKey2 | AnswerProofPublicKey3
    # The policy of the gate that was signed.
    policy_hash: str
    # The host of the service.
    rp_id: str
    # The origin of the page on which it was signed.
    origin: str
    # As the authenticator gave it, base64url.
    authenticator_data: str
    # As the browser signed it, base64url. Its challenge is that of the answer.
    client_data_json: str
    # Over `authenticator_data` and the SHA-256 of `client_data_json`, base64url.
    signature: str


class ApprovalPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Approval]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class McpPinDifferencesItem(TypedDict):
    # JSON pointer into the request.
    pointer: str
    # State before the change, as this API shows it, without secrets; null if the object did not exist.
    # Where both exist, `before` and `after` contain only the members that differ.
    before: str | None
    # State after the change, likewise; null if the object no longer exists.
    after: str | None


class McpPin(TypedDict):
    # Id of the pin, `mpin_…`.
    pin_id: str
    # The page of the console that shows the difference.
    pin_url: str
    # Id of the gate, `gate_…`.
    gate_id: str
    # The MCP server, as its guard names it: an address without its query, or a program.
    upstream: str
    # The name of the tool.
    tool: str
    # `changed` waits for a person; `rejected` keeps in force what was accepted before.
    status: Literal["pinned", "changed", "rejected"]
    # `changed`: another definition; `added`: not in the first list; `renamed` and `look_alike`: added, and
    # it equals `resembles` but for its name, or its name is taken for it; `readded`: it was gone in
    # between. Null while pinned.
    change: Literal["changed", "added", "renamed", "look_alike", "readded", None]
    # The tool that it looks like, or had been; null if none.
    resembles: str | None
    # SHA-256 of `definition`, which is in force; null if none was accepted.
    hash: str | None
    # SHA-256 of the definition that waits, or was rejected; null while pinned.
    new_hash: str | None
    # When a guard saw the tool first.
    first_seen_at: str
    # When it last ceased to be as it was pinned; null if never.
    changed_at: str | None
    # When a person last answered; null if never.
    resolved_at: str | None
    # The key or person that last answered; null if nobody did.
    resolved_by: str | None
    # The tool in force, in the form of RFC 8785; null if none was accepted.
    definition: str | None
    # The tool that waits, or was rejected; null while pinned.
    new_definition: str | None
    # Where the two differ, at most 200 places.
    differences: Sequence[McpPinDifferencesItem]


class McpPinListItem(TypedDict):
    # Id of the pin, `mpin_…`.
    pin_id: str
    # The page of the console that shows the difference.
    pin_url: str
    # Id of the gate, `gate_…`.
    gate_id: str
    # The MCP server, as its guard names it: an address without its query, or a program.
    upstream: str
    # The name of the tool.
    tool: str
    # `changed` waits for a person; `rejected` keeps in force what was accepted before.
    status: Literal["pinned", "changed", "rejected"]
    # `changed`: another definition; `added`: not in the first list; `renamed` and `look_alike`: added, and
    # it equals `resembles` but for its name, or its name is taken for it; `readded`: it was gone in
    # between. Null while pinned.
    change: Literal["changed", "added", "renamed", "look_alike", "readded", None]
    # The tool that it looks like, or had been; null if none.
    resembles: str | None
    # SHA-256 of the definition in force; null if none was accepted.
    hash: str | None
    # SHA-256 of the definition that waits, or was rejected; null while pinned.
    new_hash: str | None
    # When a guard saw the tool first.
    first_seen_at: str
    # When it last ceased to be as it was pinned; null if never.
    changed_at: str | None
    # When a person last answered; null if never.
    resolved_at: str | None
    # The key or person that last answered; null if nobody did.
    resolved_by: str | None


class McpPinPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[McpPinListItem]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class McpPinResolution(TypedDict):
    # `new_hash` of the pin that you have looked at.
    hash: str


class McpGuardPin(TypedDict):
    # Id of the pin, `mpin_…`.
    pin_id: str
    # The page of the console that shows the difference.
    pin_url: str
    # The name of the tool.
    tool: str
    # `changed` waits for a person; `rejected` keeps in force what was accepted before.
    status: Literal["pinned", "changed", "rejected"]
    # SHA-256 of the definition in force; null if none was accepted.
    hash: str | None
    # SHA-256 of the definition that waits, or was rejected; null while pinned.
    new_hash: str | None
    # `changed`: another definition; `added`: not in the first list; `renamed` and `look_alike`: added, and
    # it equals `resembles` but for its name, or its name is taken for it; `readded`: it was gone in
    # between. Null while pinned.
    change: Literal["changed", "added", "renamed", "look_alike", "readded", None]
    # When it last ceased to be as it was pinned; null if never.
    changed_at: str | None
    # When a person last answered; null if never.
    resolved_at: str | None


class McpToolReportToolsItem(TypedDict):
    # Name, title, description, schemas and annotations of the tool, in the form of RFC 8785.
    definition: str
    # It was in a list of this client, then in none, and is back.
    readded: NotRequired[bool | None]


class McpToolReport(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # The MCP server, as its guard names it: an address without its query, or a program.
    upstream: str
    # Tools of one or more answers to `tools/list`. None: only to read the pins.
    tools: Sequence[McpToolReportToolsItem]
    # With these tools the list is whole: new ones wait for a person from now on.
    is_whole: NotRequired[bool | None]
    # Of the answer before: without a change since, `pins` is null.
    revision: NotRequired[int | None]


class McpToolReportResultPiiControls(TypedDict):
    # `live` or `test`: two environments that are kept apart.
    mode: Literal["log_only", "redact", "block"]
    # Kinds of personal data that are looked for. Absent: all.
    types: Sequence[Literal["email", "phone", "payment_card", "iban", "us_ssn", "ip_address"]]


class McpToolReportResult(TypedDict):
    # Rises with every change of the pins.
    revision: int
    # All pins of this upstream; null if `revision` is known.
    pins: Sequence[McpGuardPin] | None
    # Of the gate, all types named; null if it has none.
    pii_controls: McpToolReportResultPiiControls | None


class WalletCreation(TypedDict):
    # Name, for people.
    name: str
    # The wallet above it; null: it is a root.
    parent_wallet_id: NotRequired[str | None]
    # Limits of the wallet, in UTC calendar windows; one that is absent is none.
    limits: NotRequired[WalletLimitsChange | None]
    # `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
    # it alone, and may not sum to more than those of the parent.
    share: NotRequired[Literal["pot", "reserved", None]]
    # The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8.
    alert_at: NotRequired[float | None]
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any] | None]


class WalletPatchUsage(TypedDict):
    # The most that may be spent in a UTC hour.
    hourly_usd: NotRequired[WalletUsage]
    # The most that may be spent in a UTC day.
    daily_usd: NotRequired[WalletUsage]
    # The most that may be spent in a UTC month.
    monthly_usd: NotRequired[WalletUsage]
    # The most that all its requests may spend together, in USD.
    total_usd: NotRequired[WalletUsage]
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[WalletUsage]
    # Requests in a UTC day.
    requests_per_day: NotRequired[WalletUsage]


class WalletPatch(TypedDict):
    # Name, for people.
    name: NotRequired[str | None]
    # The wallet above it; null: it is a root.
    parent_wallet_id: NotRequired[str | None]
    # Merged into the limits of the wallet; null removes one, or all.
    limits: NotRequired[WalletLimitsChange | None]
    # `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
    # it alone, and may not sum to more than those of the parent.
    share: NotRequired[Literal["pot", "reserved", None]]
    # The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8.
    alert_at: NotRequired[float | None]
    # Merged into the labels; null removes one, or all.
    labels: NotRequired[Mapping[str, Any] | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]
    # Ids of the wallets from the root down to this one.
    path: NotRequired[Sequence[str] | None]
    # Current status.
    status: NotRequired[Literal["active", "frozen", None]]
    # When it was created.
    created_at: NotRequired[str | None]
    # What is left of each of its limits, by their names.
    usage: NotRequired[WalletPatchUsage | None]
    # Passports in the wallet itself that may still be used.
    passports: NotRequired[int | None]
    # The newest 200 wallets below it. `GET /wallets?parent_wallet_id=` lists all.
    children: NotRequired[Sequence[Wallet] | None]
    # How many wallets are below it.
    children_total: NotRequired[int | None]


class WalletLimits(TypedDict):
    # The most that may be spent in a UTC hour.
    hourly_usd: NotRequired[float]
    # The most that may be spent in a UTC day.
    daily_usd: NotRequired[float]
    # The most that may be spent in a UTC month.
    monthly_usd: NotRequired[float]
    # The most that all its requests may spend together, in USD.
    total_usd: NotRequired[float]
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[float]
    # Requests in a UTC day.
    requests_per_day: NotRequired[float]


class WalletLimitsChange(TypedDict):
    # The most that may be spent in a UTC hour.
    hourly_usd: NotRequired[float | None]
    # The most that may be spent in a UTC day.
    daily_usd: NotRequired[float | None]
    # The most that may be spent in a UTC month.
    monthly_usd: NotRequired[float | None]
    # The most that all its requests may spend together, in USD.
    total_usd: NotRequired[float | None]
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[int | None]
    # Requests in a UTC day.
    requests_per_day: NotRequired[int | None]


class Wallet(TypedDict):
    # Id of the wallet, `wal_…`.
    wallet_id: str
    # Ids of the wallets from the root down to this one.
    path: Sequence[str]
    # `active`, or `frozen`: all its passports are blocked, and those of the wallets below it.
    status: Literal["active", "frozen"]
    # When it was created.
    created_at: str
    # Name, for people.
    name: str
    # The wallet above it; null: it is a root.
    parent_wallet_id: str | None
    # Limits of the wallet, in UTC calendar windows; one that is absent is none.
    limits: WalletLimits
    # `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
    # it alone, and may not sum to more than those of the parent.
    share: Literal["pot", "reserved"]
    # The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8.
    alert_at: float
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]


class WalletPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Wallet]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class WalletDetailUsage(TypedDict):
    """What is left of each of its limits, by their names."""

    # The most that may be spent in a UTC hour.
    hourly_usd: NotRequired[WalletUsage]
    # The most that may be spent in a UTC day.
    daily_usd: NotRequired[WalletUsage]
    # The most that may be spent in a UTC month.
    monthly_usd: NotRequired[WalletUsage]
    # The most that all its requests may spend together, in USD.
    total_usd: NotRequired[WalletUsage]
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[WalletUsage]
    # Requests in a UTC day.
    requests_per_day: NotRequired[WalletUsage]


class WalletDetail(TypedDict):
    # Id of the wallet, `wal_…`.
    wallet_id: str
    # Ids of the wallets from the root down to this one.
    path: Sequence[str]
    # Current status.
    status: Literal["active", "frozen"]
    # When it was created.
    created_at: str
    # Name, for people.
    name: str
    # The wallet above it; null: it is a root.
    parent_wallet_id: str | None
    # Limits of the wallet, in UTC calendar windows; one that is absent is none.
    limits: WalletLimits
    # `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
    # it alone, and may not sum to more than those of the parent.
    share: Literal["pot", "reserved"]
    # The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8.
    alert_at: float
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # What is left of each of its limits, by their names.
    usage: WalletDetailUsage
    # Passports in the wallet itself that may still be used.
    passports: int
    # The newest 200 wallets below it. `GET /wallets?parent_wallet_id=` lists all.
    children: Sequence[Wallet]
    # How many wallets are below it.
    children_total: int


class WalletUsage(TypedDict):
    # The limit, in USD or requests.
    limit: float
    # What is given out otherwise: what PERMITs have taken in this window.
    used: float
    # What open holds have, and requests that wait for people.
    held: float
    # What wallets below it have set aside and can still use.
    reserved: float
    # What sidecars hold and no record shows as used.
    leased: float
    # What everybody may still take who has nothing set aside.
    remaining: float
    # When its window ends; null: never.
    reset_at: str | None


class WalletStatementItemsItem(TypedDict):
    # Id of the passport, `pass_…`.
    passport_id: str
    # Id of the gate, `gate_…`.
    gate_id: str | None
    # The permission requested or offered: `<area>:<action>`.
    permission_key: str | None
    # What was spent in this window, in USD.
    spent_usd: float
    # Number of these PERMITs.
    requests: int


class WalletStatement(TypedDict):
    # Id of the wallet, `wal_…`.
    wallet_id: str
    # Only records from this time on.
    since: str
    # Only records before this time.
    until: str
    # USD of all lines, also of those on other pages.
    total_usd: float
    # PERMITs of all lines.
    total_requests: int
    # The objects of this page, newest first.
    items: Sequence[WalletStatementItemsItem]
    # For `page`; null: no lines follow.
    next_page: str | None


class WalletDeletion(TypedDict):
    # Id of the wallet, `wal_…`.
    wallet_id: str
    # Whether it is deleted.
    deleted: Literal[True]
    # When it was deleted.
    deleted_at: str


class PassportWallet(TypedDict):
    # The wallet; null: none any more.
    wallet_id: str | None


class StandingApprovalCreation(TypedDict):
    # Id of the gate, `gate_…`.
    gate_id: str
    # A passport of this account, or one that has asked for an approval at the gate.
    passport_id: NotRequired[str | None]
    # A person or team of the account, in place of `passport_id`: for all its passports, later ones too.
    owner: NotRequired[str | None]
    # The permission. Some request for it of up to `each_usd` must wait for an approval at the gate.
    permission_key: str
    # The most that one request may spend, in USD.
    each_usd: float
    # The most that all its requests may spend together, in USD.
    total_usd: float
    # In the future, at most 90 days away.
    expires_at: str
    # Why it is made. At most 500 characters.
    note: NotRequired[str | None]


class StandingApproval(TypedDict):
    # Id of the standing approval, `sappr_…`.
    standing_approval_id: str
    # `active` until it is `expired`, `revoked` (ended by a caller) or `policy_changed` (the gate has
    # another policy, or is deleted).
    status: Literal["active", "expired", "revoked", "policy_changed"]
    # The gate at which it holds.
    gate_id: str
    # The passport that it is for; null: it is for those of an owner.
    passport_id: str | None
    # The agent of that passport, as its owner named it; null with an owner.
    agent_id: str | None
    # The person or team whose passports it is for, later ones too; null: it is for one passport.
    owner: str | None
    # The permission that it is for.
    permission_key: str
    # The most that one request may spend, in USD.
    each_usd: float
    # The most that all its requests may spend together, in USD.
    total_usd: float
    # What its requests have spent, in USD, as far as their records have arrived.
    used_usd: float
    # Of the rest, what sidecars hold and no record shows as spent.
    leased_usd: float
    # `total_usd` less `used_usd`. At 0 a person is asked again.
    left_usd: float
    # Why it was made; null if that was not said.
    note: str | None
    # When it was made.
    created_at: str
    # The key or person that made it.
    created_by: str
    # From then on a person is asked again.
    expires_at: str
    # When a caller or a change of the policy ended it; null if neither did before `expires_at`.
    ended_at: str | None
    # The key or person that ended it; null otherwise.
    ended_by: str | None


class StandingApprovalPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[StandingApproval]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class HoldAsk2(TypedDict):
    # From 60 to 604800. Default: as the gate has it, else 3600.
    expires_in_s: NotRequired[int | None]


HoldAsk: TypeAlias = "bool | HoldAsk2"


class PermitHold(TypedDict):
    # What is held, in USD.
    amount_usd: float
    # When it ends without an outcome.
    expires_at: str


class HoldState(TypedDict):
    # `open`, then `settled` (served), `released` (failed) or `expired` (no outcome came in time).
    status: Literal["open", "settled", "released", "expired"]
    # What is held, or was, in USD.
    amount_usd: float
    # When it ends, or would have, without an outcome.
    expires_at: str


class OutcomeReport(TypedDict):
    # `served`, or `failed`: then all that is held goes back.
    outcome: Literal["served", "failed"]
    # What it came to, in USD. Default: all that is held.
    amount: NotRequired[float | None]
    # For the people who read the list. At most 500 characters.
    detail: NotRequired[str | None]


class HoldExtension(TypedDict):
    # From 60 to 604800, counted from now.
    expires_in_s: int


class RefundRequest(TypedDict):
    # In USD. Default: all that counts.
    amount: NotRequired[float | None]
    # For the audit. At most 500 characters.
    reason: NotRequired[str | None]


class PermitOutcome(TypedDict):
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str
    # Id of the gate, `gate_…`.
    gate_id: str | None
    # Id of the passport, `pass_…`.
    passport_id: str | None
    # `served` or `failed`; null if none was reported.
    outcome: Literal["served", "failed", None]
    # As reported, in USD; null: all that was held.
    amount_usd: float | None
    # What the reporter said for people; null if nothing.
    detail: str | None
    # When it was reported.
    reported_at: str | None
    # Null: the PERMIT was not held.
    hold: HoldState | None
    # What the PERMIT counts now, in USD; null if it has no amount.
    counts_usd: float | None
    # What was refunded so far, in USD.
    refunded_usd: float
    # The last record that refers to the PERMIT; null if there is none.
    record_id: str | None


class HoldPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[PermitOutcome]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class ReportedOutcomeRefusal(TypedDict):
    # For programs to branch on; a closed list, see docs/errors.md.
    code: str
    # Text for people.
    message: str


class ReportedOutcome(TypedDict):
    # Id of the report, `out_…`.
    outcome_id: str
    # `waiting` for its PERMIT, or `refused`.
    status: Literal["waiting", "refused"]
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str
    # `served` or `failed`; null if none was reported.
    outcome: Literal["served", "failed"]
    # As reported, in USD; null: all that was held.
    amount_usd: float | None
    # What the reporter said for people; null if nothing.
    detail: str | None
    # Id of the sidecar, `side_…`.
    sidecar_id: str
    # When it was reported.
    reported_at: str
    # When the control plane had it.
    received_at: str
    # Why it was refused; null while it waits.
    refusal: ReportedOutcomeRefusal | None


class ReportedOutcomePage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[ReportedOutcome]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class AttestationExternal(TypedDict):
    # Commitment to a value, `sha256:` and hex.
    commitment: str | None
    # What was decided.
    decision: bool | None


class AttestationFactsItem(TypedDict):
    # Commitment to a value, `sha256:` and hex.
    commitment: str
    # JSON pointer of the value.
    path: str


class AttestationPiiItem(TypedDict):
    # JSON pointer into the request.
    pointer: str
    # Kind of personal data.
    type: str


class AttestationShadow(TypedDict):
    # Id of the condition that decided, of the gate or the passport; absent or null: none did.
    condition: str | None
    # What was decided.
    decision: Literal["PERMIT", "SUSPEND", "BLOCK", None]
    # Hash of the policy that decided; null without a gate, or if the policy is not on record.
    policy_hash: str
    # Reason code; null for a PERMIT.
    reason: str | None


class Attestation(TypedDict):
    # Amount of the request, in millionths of a USD; null if it had none.
    amount_micro_usd: int | None
    # The approval that a PERMIT used, or that a SUSPEND is about. This and the other members of form 2
    # (contract §9) are absent from older records.
    approval_id: NotRequired[str | None]
    # Whether the subject was named without its token.
    asserted: NotRequired[bool | None]
    # The passport, gate or account whose chain this record belongs to.
    chain_id: str
    # Ids of the conditions that failed; null without conditions.
    conditions: NotRequired[Sequence[str] | None]
    # The checks made, in order. The last one determined the decision.
    constraints_evaluated: Sequence[Literal["passport", "trust_level", "freshness", "issuer", "proof_of_possession", "permission", "conditions", "domain_allowlist", "pii_controls", "spend_limit", "rate_limit", "approval"]]
    # What was decided.
    decision: Literal["PERMIT", "SUSPEND", "BLOCK"]
    # Host that the request named, in its canonical form; null if it named none, or where the gate finds
    # personal data in it.
    domain: NotRequired[str | None]
    # Answer of an external decision point; null: none was asked.
    external: NotRequired[AttestationExternal | None]
    # Commitments to the values that the decision read; null: none.
    facts: NotRequired[Sequence[AttestationFactsItem] | None]
    # The gate that decided; null for a decision without a gate.
    gate_id: str | None
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the record without hash and signature.
    hash: str
    # When the hold of a PERMIT ends; null where none is open.
    hold_expires_at: NotRequired[str | None]
    # Id of the record, `att_…`.
    id: str
    # The passport that was presented; null if it did not verify.
    passport_id: str | None
    # The requested permission; null if none.
    permission_key: str | None
    # The `jti` of the permit token in the answer; null: none.
    permit_token: NotRequired[str | None]
    # Where personal data was found, never the data itself.
    pii: Sequence[AttestationPiiItem]
    # Hash of the policy that decided; null without a gate, or if the policy is not on record.
    policy_hash: NotRequired[str | None]
    # `hash` of the previous record in the chain; null for the first.
    previous_attestation_hash: str | None
    # How possession of the passport's key was proved; null if it was not.
    proof: NotRequired[Literal["dpop", "httpsig", None]]
    # Reason code; null for a PERMIT.
    reason: Literal["passport_malformed", "passport_signature_invalid", "passport_not_yet_valid", "passport_expired", "passport_revoked", "passport_suspended", "passport_unknown_key", "mode_mismatch", "trust_level_insufficient", "issuer_untrusted", "issuer_keys_stale", "proof_missing", "proof_invalid", "proof_replayed", "permission_missing", "permission_not_granted", "permission_not_in_catalog", "condition_not_met", "condition_error", "domain_not_allowed", "domain_missing", "pii_detected", "currency_unsupported", "amount_missing", "spend_limit_exceeded", "rate_limit_exceeded", "quota_unavailable", "state_stale", "approval_required", "approval_denied", "approval_expired", "approval_used", "approval_mismatch", "approvals_pending_exceeded", "wallet_limit_exceeded", "wallet_frozen", None]
    # The approval that the record resolves, or the attestation that it voids.
    refers_to: NotRequired[str | None]
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the request.
    request_hash: str
    # How a SUSPEND was resolved, or `voided`: the decision in `refers_to` has no effect. Null for every
    # other record.
    resolution: Literal["approved", "denied", "expired", "voided", "settled", "released", "extended", "refunded", "reported", None]
    # Place in the chain, from 1.
    sequence: int
    # What another policy would have decided; null: none.
    shadow: NotRequired[AttestationShadow | None]
    # base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly.
    signature: str
    # `kid` of the key that signed, in the JWKS.
    signing_key_id: str
    # Id of the sidecar that decided, or `control-plane`.
    source: str
    # Account of that sidecar, or of the call that the control plane answered.
    source_account: NotRequired[str | None]
    # Age of the state of the sidecar that decided; null if a control plane did, or if not known.
    state_age_ms: NotRequired[int | None]
    # Whether it was a gate test.
    test: bool
    # When it was decided.
    timestamp: str
    # Trust level of the gate when it decided; null without a gate.
    trust_level: NotRequired[Literal["L1", "L2", "L3", None]]
    # Units of what is no money, by name; null: none.
    units: NotRequired[Mapping[str, Any] | None]
    # Commitment to the person behind the agent; null: not known.
    user: NotRequired[str | None]
    # Wallet of the passport, `wal_…`; null without one.
    wallet_id: NotRequired[str | None]
    # Digests of the wallets of the passport, from its own to the root, as the source of the record knew
    # them; empty: none, null: not known.
    wallet_path: NotRequired[Sequence[str] | None]


class AttestationPage(TypedDict):
    # The records of this page.
    attestations: Sequence[Attestation]
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None
    # Records of the passports, gates and account of the caller that arrived before may be in archives, and
    # lists lack them; null: none are.
    archived_before: str | None


class AttestationFactsFactsItem(TypedDict):
    # True: the path was absent, and `value` is null.
    absent: NotRequired[Literal[True]]
    # Commitment to a value, `sha256:` and hex.
    commitment: str
    # True: the RFC 8785 form of the value is longer than 1 KiB, and `value` is its hash.
    hashed: NotRequired[Literal[True]]
    # JSON pointer of the value.
    path: str
    # base64url of the 16 random bytes in the commitment.
    salt: str
    # What the decision read there.
    value: Any


class AttestationFacts(TypedDict):
    # Id of the record.
    attestation_id: str
    # What opens commitments of the record (docs/facts.md).
    facts: Sequence[AttestationFactsFactsItem]


class ExportManifest(TypedDict):
    """What the export holds."""

    # When the export was made.
    created_at: str
    # Name and version of the format.
    format: Literal["agent-trust.attestations.v1", "agent-trust.attestations.v2"]
    # Name of the history of the database.
    generation: NotRequired[str | None]
    # `kid` of every key that may have signed a record of the export.
    key_ids: Sequence[str]
    # Each chain starts at its first record that is not older than this; null: at its first record.
    since: str | None


class ExportChainsItemArchived(TypedDict):
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the record without hash and signature.
    hash: str
    # The `sequence` of the last record that is in an archive.
    through_sequence: int


class ExportChainsItem(TypedDict):
    # The last of the records that were moved to an archive: the chain goes on behind it. Absent: none were.
    archived: NotRequired[ExportChainsItemArchived | None]
    # The passport, gate or account whose chain this record belongs to.
    chain_id: str
    # `sequence` of the first record of the chain that follows.
    first_sequence: int
    # `hash` of the last one.
    last_hash: str
    # `sequence` of the last one.
    last_sequence: int
    # The tlog-proof of one of its records (docs/log.md); absent: the transparency log has none yet.
    log_proof: NotRequired[str | None]
    # `hash` of the previous record in the chain; null for the first.
    previous_attestation_hash: str | None
    # The records of this page.
    attestations: Sequence[Attestation | AttestationFacts]


class ExportEnd(TypedDict):
    """End line: shows that nothing is missing at the end."""

    # Chains that are not whole in the database. Absent: all are.
    broken: NotRequired[Sequence[BrokenChain] | None]
    # How many more are not whole. Absent: none.
    broken_unnamed: NotRequired[int | None]
    # The chains in ascending order of `chain_id`, each with its records; at the end, how many.
    chains: int
    # How many records there are in all.
    records: int


class Export(TypedDict):
    # What the export holds.
    manifest: ExportManifest
    # The chains in ascending order of `chain_id`, each with its records; at the end, how many.
    chains: Sequence[ExportChainsItem]
    # What the records name, each with its signature: `policy`, `catalog`, `passport` or `approval`.
    # docs/verify.md has their members. Absent: they name nothing.
    attachments: NotRequired[Sequence[Mapping[str, Any]] | None]
    # End line: shows that nothing is missing at the end.
    end: ExportEnd


class BrokenChain(TypedDict):
    # The passport, gate or account whose chain this record belongs to.
    chain_id: str
    # What is wrong with the chain.
    fault: str
    # Place in the chain, from 1.
    sequence: int


class Actor(TypedDict):
    # The OAuth client to which the access token was issued; null for an API key.
    client_id: str | None
    # Id of the actor: the `key_id` of the API key.
    id: str
    # `api_key`: with this key; `access_token`: with a token that is bound to it. Others may come, such as
    # people with a login.
    type: str


class AuditEntry(TypedDict):
    # Id of the account, `acct_…`.
    account_id: str
    # Who made the change.
    actor: Actor
    # State after the change, likewise; null if the object no longer exists.
    after: Mapping[str, Any] | None
    # Id of the entry, `aud_…`.
    audit_id: str
    # State before the change, as this API shows it, without secrets; null if the object did not exist.
    # Where both exist, `before` and `after` contain only the members that differ.
    before: Mapping[str, Any] | None
    # When the change was made.
    created_at: str
    # `sha256:` and hex of SHA-256 over the RFC 8785 form of the entry without hash and signature.
    hash: str
    # `live` or `test`: two environments that are kept apart.
    mode: Literal["live", "test"]
    # The operation: an operationId of this document.
    operation: str
    # `hash` of the previous entry in the chain; null for the first.
    previous_hash: str | None
    # Names the request; also in `X-Request-Id`.
    request_id: str
    # Place in the chain, from 1.
    sequence: int
    # base64url of the Ed25519 signature over the hash; docs/audit.md says over which text exactly.
    signature: str
    # `kid` of the key that signed, in the JWKS.
    signing_key_id: str
    # Id of what was changed.
    target: str


class AuditPage(TypedDict):
    # The entries of this page.
    entries: Sequence[AuditEntry]
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class IssuerCreation(TypedDict):
    # Name, for people.
    name: str
    # Host name that the issuer claims; nobody verified it.
    domain: NotRequired[str | None]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # Free-form, kept and answered as sent. At most 16 KiB of JSON.
    metadata: NotRequired[Mapping[str, Any] | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]
    # What makes this an issuer of others, whose own JWTs are passports; null if its passports are issued
    # here.
    federation: NotRequired[FederationCreation | None]


class IssuerUpdate(TypedDict):
    # Name, for people.
    name: NotRequired[str | None]
    # Free-form, kept and answered as sent. At most 16 KiB of JSON.
    metadata: NotRequired[Mapping[str, Any] | None]
    # Current status.
    status: NotRequired[Literal["active", "suspended", None]]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]
    # What makes this an issuer of others, whose own JWTs are passports; null if its passports are issued
    # here.
    federation: NotRequired[FederationUpdate | None]
    # Id of the issuer, `iss_…`.
    issuer_id: NotRequired[str | None]
    # Host name that the issuer claims; nobody verified it.
    domain: NotRequired[str | None]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # When it was created.
    created_at: NotRequired[str | None]
    # Passports issued in its name.
    passport_count: NotRequired[int | None]
    # Of these, active now.
    active_passports: NotRequired[int | None]
    # Of these, revoked.
    revoked_passports: NotRequired[int | None]
    # When the last one was issued; null if none was issued yet.
    last_passport_issued_at: NotRequired[str | None]


class Issuer(TypedDict):
    # Id of the issuer, `iss_…`.
    issuer_id: str
    # Host name that the issuer claims; nobody verified it.
    domain: str | None
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: Literal["L1", "L2", "L3"]
    # When it was created.
    created_at: str
    # Passports issued in its name.
    passport_count: int
    # Of these, active now.
    active_passports: int
    # Of these, revoked.
    revoked_passports: int
    # When the last one was issued; null if none was issued yet.
    last_passport_issued_at: str | None
    # Name, for people.
    name: str
    # Free-form, kept and answered as sent. At most 16 KiB of JSON.
    metadata: Mapping[str, Any]
    # Current status.
    status: Literal["active", "suspended"]
    # The wallet that its passports come into when they are issued or first seen; null: none.
    wallet_id: str | None
    # What makes this an issuer of others, whose own JWTs are passports; null if its passports are issued
    # here.
    federation: Federation | None


class FederationKeysItem(TypedDict):
    # What its tokens name the key by; null if by nothing.
    kid: str | None
    # The one algorithm that the key verifies.
    algorithm: Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]


class Federation(TypedDict):
    # How it issues: OpenID Connect, any JWT with published or pasted keys, SPIFFE JWT-SVID.
    type: Literal["oidc", "jwks", "jwt-svid"]
    # What its tokens have as `iss`; for `jwt-svid` the trust domain of their `sub`.
    issuer: str
    # Values of `aud` that make a token a passport here.
    audiences: Sequence[str]
    # Signature algorithms that are accepted. Default: all of these.
    algorithms: NotRequired[Sequence[Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]]]
    # How long the last good keys verify when they cannot be read again. Default 86400.
    max_key_age_s: NotRequired[int]
    # JSON pointers (RFC 6901) to the claims that say what a token becomes.
    claims: NotRequired[FederationClaims]
    # Values of the permissions claim, each with the permissions that it grants; other values grant none.
    # Absent: the values are permissions.
    permission_map: NotRequired[Mapping[str, Any]]
    # Permissions of every subject.
    permissions: NotRequired[Sequence[str]]
    # The highest tier that its passports get.
    trust_tier: NotRequired[Literal["L1", "L2", "L3"]]
    # Patterns of subjects whose tokens are accepted; `*` stands for any characters. Absent: all.
    subjects: NotRequired[Sequence[str]]
    # Limits that apply to every decision.
    constraints: NotRequired[PassportConstraints]
    # Where its keys are published. Default for `oidc`: where its metadata says.
    jwks_uri: NotRequired[str]
    # Whether the keys were pasted.
    is_pasted: bool
    # The keys that verify its tokens now.
    keys: Sequence[FederationKeysItem]
    # When the keys were last read where they are published; null if they were pasted.
    keys_read_at: str | None
    # Why the keys could not be read the last time, or what of them was passed over; null: neither.
    keys_fault: str | None


class FederationCreation(TypedDict):
    # How it issues: OpenID Connect, any JWT with published or pasted keys, SPIFFE JWT-SVID.
    type: Literal["oidc", "jwks", "jwt-svid"]
    # What its tokens have as `iss`; for `jwt-svid` the trust domain of their `sub`.
    issuer: str
    # Values of `aud` that make a token a passport here.
    audiences: Sequence[str]
    # Signature algorithms that are accepted. Default: all of these.
    algorithms: NotRequired[Sequence[Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]] | None]
    # How long the last good keys verify when they cannot be read again. Default 86400.
    max_key_age_s: NotRequired[int | None]
    # JSON pointers (RFC 6901) to the claims that say what a token becomes.
    claims: NotRequired[FederationClaims | None]
    # Values of the permissions claim, each with the permissions that it grants; other values grant none.
    # Absent: the values are permissions.
    permission_map: NotRequired[Mapping[str, Any] | None]
    # Permissions of every subject.
    permissions: NotRequired[Sequence[str] | None]
    # The highest tier that its passports get.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # Patterns of subjects whose tokens are accepted; `*` stands for any characters. Absent: all.
    subjects: NotRequired[Sequence[str] | None]
    # Limits that apply to every decision.
    constraints: NotRequired[PassportConstraints | None]
    # Where its keys are published. Default for `oidc`: where its metadata says.
    jwks_uri: NotRequired[str | None]
    # Its public keys (RFC 7517), pasted. They are never fetched and never too old.
    jwks: NotRequired[Mapping[str, Any] | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]


class FederationUpdateKeysItem(TypedDict):
    # What its tokens name the key by; null if by nothing.
    kid: str | None
    # The one algorithm that the key verifies.
    algorithm: Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]


class FederationUpdate(TypedDict):
    # How it issues: OpenID Connect, any JWT with published or pasted keys, SPIFFE JWT-SVID.
    type: Literal["oidc", "jwks", "jwt-svid"]
    # What its tokens have as `iss`; for `jwt-svid` the trust domain of their `sub`.
    issuer: str
    # Values of `aud` that make a token a passport here.
    audiences: Sequence[str]
    # Signature algorithms that are accepted. Default: all of these.
    algorithms: NotRequired[Sequence[Literal["RS256", "PS256", "ES256", "ES384", "EdDSA"]] | None]
    # How long the last good keys verify when they cannot be read again. Default 86400.
    max_key_age_s: NotRequired[int | None]
    # JSON pointers (RFC 6901) to the claims that say what a token becomes.
    claims: NotRequired[FederationClaims | None]
    # Values of the permissions claim, each with the permissions that it grants; other values grant none.
    # Absent: the values are permissions.
    permission_map: NotRequired[Mapping[str, Any] | None]
    # Permissions of every subject.
    permissions: NotRequired[Sequence[str] | None]
    # The highest tier that its passports get.
    trust_tier: NotRequired[Literal["L1", "L2", "L3", None]]
    # Patterns of subjects whose tokens are accepted; `*` stands for any characters. Absent: all.
    subjects: NotRequired[Sequence[str] | None]
    # Limits that apply to every decision.
    constraints: NotRequired[PassportConstraints | None]
    # Where its keys are published. Default for `oidc`: where its metadata says.
    jwks_uri: NotRequired[str | None]
    # Its public keys (RFC 7517), pasted. They are never fetched and never too old.
    jwks: NotRequired[Mapping[str, Any] | None]
    # Id of the wallet, `wal_…`.
    wallet_id: NotRequired[str | None]
    # Whether the keys were pasted.
    is_pasted: NotRequired[bool | None]
    # The keys that verify its tokens now.
    keys: NotRequired[Sequence[FederationUpdateKeysItem] | None]
    # When the keys were last read where they are published; null if they were pasted.
    keys_read_at: NotRequired[str | None]
    # Why the keys could not be read the last time, or what of them was passed over; null: neither.
    keys_fault: NotRequired[str | None]


class SubjectRevocation(TypedDict):
    # The subject, as the claim has it that names subjects.
    subject: str
    # Reason, kept for the record. Default `unspecified`.
    reason: NotRequired[str | None]


class TokenTrial(TypedDict):
    # A token of the issuer. It is neither stored nor recorded.
    token: str
    # Id of the gate, `gate_…`.
    gate_id: NotRequired[str | None]


class TokenExplanation(TypedDict):
    # Why a gate would block it; null if the token is a passport.
    reason: Literal["passport_malformed", "passport_signature_invalid", "passport_not_yet_valid", "passport_expired", "passport_revoked", "passport_suspended", "passport_unknown_key", "mode_mismatch", "trust_level_insufficient", "issuer_untrusted", "issuer_keys_stale", "proof_missing", "proof_invalid", "proof_replayed", "permission_missing", "permission_not_granted", "permission_not_in_catalog", "condition_not_met", "condition_error", "domain_not_allowed", "domain_missing", "pii_detected", "currency_unsupported", "amount_missing", "spend_limit_exceeded", "rate_limit_exceeded", "quota_unavailable", "state_stale", "approval_required", "approval_denied", "approval_expired", "approval_used", "approval_mismatch", "approvals_pending_exceeded", "wallet_limit_exceeded", "wallet_frozen", None]
    # What was looked at, in order, up to the first fault.
    steps: Sequence[TokenStep]
    # The passport that it is a token of; null if it is none.
    passport: TokenPassport | None


class TokenStep(TypedDict):
    # A claim, or what else of the token was looked at.
    claim: str
    # What the token says there, cut after 500 characters; null if nothing.
    value: str | None
    # Whether it is as it has to be.
    is_good: bool
    # What it becomes, or what is wrong with it.
    becomes: str


class TokenPassport(TypedDict):
    # Id of the passport, `pass_…`.
    passport_id: str
    # Current status.
    status: Literal["active", "suspended", "revoked", "expired"]
    # The suspensions that stand, oldest first; empty: none.
    suspended_by: Sequence[Suspension]
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: str | None
    # For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport.
    user: str | None
    # Who acts for whom: the nested `act` of the token (RFC 8693), who acts now first; at most 4.
    actors: Sequence[TokenDelegate]
    # What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.
    permissions: Sequence[str]
    # How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.
    trust_tier: Literal["L1", "L2", "L3"]
    # When it expires; null if it never expires.
    expires_at: str


class TokenDelegate(TypedDict):
    # Who names it; null: the token does not say.
    iss: str | None
    # Who acts, as the token names it.
    sub: str


class FederationClaims(TypedDict):
    # Names the subject: one passport for each value. Default `/sub`.
    agent_id: NotRequired[str | None]
    # Names permissions: a list of texts, or texts with blanks between them.
    permissions: NotRequired[str | None]
    # Names the trust tier; a token without it gets L1, one with another form is no passport.
    trust_tier: NotRequired[str | None]
    # Names the owner.
    owner: NotRequired[str | None]
    # Names the person for whom the agent acts. A token without it has none; one with another form is no
    # passport. Absent: no token has one.
    user: NotRequired[str | None]


class PassportOwner(TypedDict):
    # A person or team that the passport belongs to; all passports of an owner are suspended together.
    owner: str
    # Current status.
    status: Literal["active", "suspended"]
    # The suspensions that stand, oldest first; empty: none.
    suspended_by: Sequence[Suspension]
    # How many passports have this owner, whatever their status, or are suspended because they had.
    passports: int
    # False: no passport has this owner. A suspension binds all the same.
    seen: bool


class Suspension(TypedDict):
    # Whose it is: `account`, by a person or a key, or the id of an issuer, by a security event.
    cause: str
    # When it began.
    since: str
    # Type of the security event; null: none.
    event: str | None
    # Of a passport that is suspended with this owner; absent: by itself.
    owner: NotRequired[str]


class Reactivation(TypedDict):
    # The issuer whose suspension ends. Default: the account's own ends.
    issuer_id: NotRequired[str | None]


class IssuerPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Issuer]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class TemplateCreation(TypedDict):
    # Name, for people.
    name: str
    # Text for people.
    description: NotRequired[str | None]
    # Minimum trust tier of a passport.
    trust_level: NotRequired[Literal["L1", "L2", "L3", None]]
    # Limits that apply to every decision.
    constraints: NotRequired[GateConstraints | None]


class Template(TypedDict):
    # Id of the template, `tmpl_…`, or the name of a built-in one.
    template_id: str
    # Name, for people.
    name: str
    # Text for people.
    description: str | None
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3", None]
    # Limits that apply to every decision.
    constraints: GateConstraints
    # Whether the template comes with the service.
    built_in: bool
    # When it was created.
    created_at: str


class TemplatePage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Template]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class AuthzenVocabulary(TypedDict):
    # Which gate decides about which resource.
    resources: Sequence[AuthzenResource]
    # Which permission an action is.
    actions: Sequence[AuthzenAction]


class AuthzenResource(TypedDict):
    # Type of the resource, in the words of your policy enforcement points.
    type: str
    # Id of the resource there; absent: every one of the type, which no search finds.
    id: NotRequired[str | None]
    # Id of the gate, `gate_…`.
    gate_id: str
    # What is known of the resource. A property that an evaluation names counts in its place.
    properties: NotRequired[Mapping[str, Any] | None]


class AuthzenActionWhen(TypedDict):
    # Properties of the action.
    action: NotRequired[Mapping[str, Any] | None]
    # Properties of the resource.
    resource: NotRequired[Mapping[str, Any] | None]


class AuthzenAction(TypedDict):
    # Type of the resources that have the action.
    resource_type: str
    # Name of the action.
    name: str
    # The permission that the action is.
    permission_key: str
    # It is so only where the evaluation has all of these properties.
    when: NotRequired[AuthzenActionWhen | None]


class RetentionUpdate(TypedDict):
    # Records of months that ended more days ago leave the database with the next archive. Null: as long as
    # the operator keeps records.
    days: int | None
    # Values that decisions read are removed after so many days. Null: with their records. Absent: as it is.
    facts_days: NotRequired[int | None]
    # Records of the passports, gates and account of the caller that arrived before may be in archives, and
    # lists lack them; null: none are.
    archived_before: NotRequired[str | None]


class Retention(TypedDict):
    # Records of months that ended more days ago leave the database with the next archive. Null: as long as
    # the operator keeps records.
    days: int | None
    # Values that decisions read are removed after so many days. Null: with their records. Absent: as it is.
    facts_days: int | None
    # Records of the passports, gates and account of the caller that arrived before may be in archives, and
    # lists lack them; null: none are.
    archived_before: str | None


class WhoAmI(TypedDict):
    # Id of the account, `acct_…`.
    account_id: str
    # `live` or `test`: two environments that are kept apart.
    mode: Literal["live", "test"]
    # Who calls.
    actor: Actor
    # What the key may do.
    scopes: Sequence[Literal["passports:issue", "passports:read", "passports:revoke", "gates:create", "gates:read", "gates:update", "gates:manage", "issuers:create", "issuers:read", "issuers:update", "templates:read", "templates:create", "osgate:read", "osgate:manage", "admin:*", "enforcement:check", "enforcement:delegate", "attestations:read", "audit:read", "approvals:read", "approvals:resolve", "webhooks:manage", "keys:manage", "users:manage", "sidecars:connect", "wallets:read", "wallets:manage"]]
    # When the key ends; null: never.
    expires_at: str | None


class ApiKeyCreation(TypedDict):
    # Name, for people.
    name: str
    # What the key may do.
    scopes: Sequence[str]
    # When it expires; null if it never expires.
    expires_at: NotRequired[str | None]
    # `live` or `test`: two environments that are kept apart.
    mode: NotRequired[Literal["live", "test", None]]


class Roll(TypedDict):
    # How long the old one stays valid beside the new one, in seconds. Default 0.
    overlap_s: NotRequired[int | None]


class ApiKey(TypedDict):
    # Id of the API key, `key_…`.
    key_id: str
    # Name, for people.
    name: str
    # What the key may do.
    scopes: Sequence[Literal["passports:issue", "passports:read", "passports:revoke", "gates:create", "gates:read", "gates:update", "gates:manage", "issuers:create", "issuers:read", "issuers:update", "templates:read", "templates:create", "osgate:read", "osgate:manage", "admin:*", "enforcement:check", "enforcement:delegate", "attestations:read", "audit:read", "approvals:read", "approvals:resolve", "webhooks:manage", "keys:manage", "users:manage", "sidecars:connect", "wallets:read", "wallets:manage"]]
    # `live` or `test`: two environments that are kept apart.
    mode: Literal["live", "test"]
    # First 12 characters of the key, to recognise it by.
    prefix: str
    # Last 4 characters of the key.
    last4: str
    # When it was created.
    created_at: str
    # When it expires; null if it never expires.
    expires_at: str | None
    # When it was last used; null if never.
    last_used_at: str | None


class NewApiKey(TypedDict):
    # Id of the API key, `key_…`.
    key_id: str
    # Name, for people.
    name: str
    # What the key may do.
    scopes: Sequence[Literal["passports:issue", "passports:read", "passports:revoke", "gates:create", "gates:read", "gates:update", "gates:manage", "issuers:create", "issuers:read", "issuers:update", "templates:read", "templates:create", "osgate:read", "osgate:manage", "admin:*", "enforcement:check", "enforcement:delegate", "attestations:read", "audit:read", "approvals:read", "approvals:resolve", "webhooks:manage", "keys:manage", "users:manage", "sidecars:connect", "wallets:read", "wallets:manage"]]
    # `live` or `test`: two environments that are kept apart.
    mode: Literal["live", "test"]
    # First 12 characters of the key, to recognise it by.
    prefix: str
    # Last 4 characters of the key.
    last4: str
    # When it was created.
    created_at: str
    # When it expires; null if it never expires.
    expires_at: str | None
    # When it was last used; null if never.
    last_used_at: str | None
    # The API key itself. Shown this once; only its hash is kept.
    key: NotRequired[str]


class ApiKeyPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[ApiKey]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class ApiKeyDeletion(TypedDict):
    # Id of the API key, `key_…`.
    key_id: str
    # Whether it is deleted.
    deleted: Literal[True]
    # When it was deleted.
    deleted_at: str


class AccountCreationLimits(TypedDict):
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[int | None]
    # Requests in a UTC day.
    requests_per_day: NotRequired[int | None]


class AccountCreation(TypedDict):
    # Name, for people.
    name: str
    # The plan of the account; determines its limits.
    plan: Literal["free", "pro", "teams", "enterprise"]
    # Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
    # enterprise plan can have; null if unlimited.
    limits: NotRequired[AccountCreationLimits | None]


class AccountUpdateLimits(TypedDict):
    # Requests in a UTC minute.
    requests_per_minute: NotRequired[int | None]
    # Requests in a UTC day.
    requests_per_day: NotRequired[int | None]


class AccountUpdate(TypedDict):
    # Name, for people.
    name: NotRequired[str | None]
    # The plan of the account; determines its limits.
    plan: NotRequired[Literal["free", "pro", "teams", "enterprise", None]]
    # Current status.
    status: NotRequired[Literal["active", "suspended", None]]
    # Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
    # enterprise plan can have; null if unlimited.
    limits: NotRequired[AccountUpdateLimits | None]
    # Id of the account, `acct_…`.
    account_id: NotRequired[str | None]
    # When it was created.
    created_at: NotRequired[str | None]


class AccountLimits(TypedDict):
    # Requests in a UTC minute.
    requests_per_minute: int | None
    # Requests in a UTC day.
    requests_per_day: int | None


class Account(TypedDict):
    # Id of the account, `acct_…`.
    account_id: str
    # When it was created.
    created_at: str
    # Name, for people.
    name: str
    # The plan of the account; determines its limits.
    plan: Literal["free", "pro", "teams", "enterprise"]
    # Current status.
    status: Literal["active", "suspended"]
    # Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
    # enterprise plan can have; null if unlimited.
    limits: AccountLimits | None


class NewAccountLimits(TypedDict):
    # Requests in a UTC minute.
    requests_per_minute: int | None
    # Requests in a UTC day.
    requests_per_day: int | None


class NewAccount(TypedDict):
    # Id of the account, `acct_…`.
    account_id: str
    # When it was created.
    created_at: str
    # Name, for people.
    name: str
    # The plan of the account; determines its limits.
    plan: Literal["free", "pro", "teams", "enterprise"]
    # Current status.
    status: Literal["active", "suspended"]
    # Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
    # enterprise plan can have; null if unlimited.
    limits: NewAccountLimits | None
    # The first key of the account.
    api_key: NewApiKey


class AccountPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Account]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class ChannelCreation(TypedDict):
    # Name, for people.
    name: str
    # `slack`: an incoming webhook of Slack or a compatible service; `email`; `webhook`: the signed event as
    # JSON.
    kind: Literal["slack", "email", "webhook"]
    # URL of the webhook, or one e-mail address.
    target: str
    # The gate whose approvals it is told of. Default: all without channels of their own.
    gate_id: NotRequired[str | None]
    # The channel is told of approvals that are still pending after so many seconds. Default: 0.
    after_s: NotRequired[int | None]
    # What it is told of: that a request waits, always, and how that ended. Default: both.
    events: NotRequired[Sequence[Literal["approval.requested", "approval.resolved"]] | None]


class ChannelUpdate(TypedDict):
    # Name, for people.
    name: NotRequired[str | None]
    # Another URL or e-mail address. As `GET` shows it: the one that is there.
    target: NotRequired[str | None]
    # The channel is told of approvals that are still pending after so many seconds. Default: 0.
    after_s: NotRequired[int | None]
    # What it is told of: that a request waits, always, and how that ended.
    events: NotRequired[Sequence[Literal["approval.requested", "approval.resolved"]] | None]
    # Current status.
    status: NotRequired[Literal["enabled", "disabled", None]]
    # Id of the channel, `chan_…`.
    channel_id: NotRequired[str | None]
    # What kind of channel it is.
    kind: NotRequired[Literal["slack", "email", "webhook", None]]
    # The gate whose approvals it is told of; null: of all without channels of their own.
    gate_id: NotRequired[str | None]
    # When it was created.
    created_at: NotRequired[str | None]
    # `sha256:` and the hash of the target: shows whether two targets are the same.
    target_hash: NotRequired[str | None]
    # Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
    # days; `unread`: nobody fetched for an hour; null if it is enabled.
    disabled_reason: NotRequired[Literal["owner", "gone", "failing", None]]
    # When the first attempt after the last success failed; null if none failed.
    failing_since: NotRequired[str | None]
    # How many attempts have failed since the last success.
    failures: NotRequired[int | None]
    # The last failure; null if the last attempt succeeded, or there was none.
    last_error: NotRequired[ChannelFailure | None]
    # When a message was last sent; null: never.
    last_sent_at: NotRequired[str | None]
    # When it was last changed.
    updated_at: NotRequired[str | None]


class Channel(TypedDict):
    # Id of the channel, `chan_…`.
    channel_id: str
    # What kind of channel it is.
    kind: Literal["slack", "email", "webhook"]
    # The gate whose approvals it is told of; null: of all without channels of their own.
    gate_id: str | None
    # When it was created.
    created_at: str
    # Name, for people.
    name: str
    # E-mail address, or host and last characters of the URL.
    target: str
    # The channel is told of approvals that are still pending after so many seconds. Default: 0.
    after_s: int
    # What it is told of.
    events: Sequence[Literal["approval.requested", "approval.resolved"]]
    # Current status.
    status: Literal["enabled", "disabled"]
    # `sha256:` and the hash of the target: shows whether two targets are the same.
    target_hash: str
    # Why nothing is sent: `owner` disabled it; `gone`: its address is no more; `failing`: no success for
    # three days; null if it is enabled.
    disabled_reason: Literal["owner", "gone", "failing", None]
    # When the first attempt after the last success failed; null if none failed.
    failing_since: str | None
    # How many attempts have failed since the last success.
    failures: int
    # The last failure; null if the last attempt succeeded, or there was none.
    last_error: ChannelFailure | None
    # When a message was last sent; null: never.
    last_sent_at: str | None
    # When it was last changed.
    updated_at: str


class NewChannel(TypedDict):
    # Id of the channel, `chan_…`.
    channel_id: str
    # What kind of channel it is.
    kind: Literal["slack", "email", "webhook"]
    # The gate whose approvals it is told of; null: of all without channels of their own.
    gate_id: str | None
    # When it was created.
    created_at: str
    # Name, for people.
    name: str
    # E-mail address, or host and last characters of the URL.
    target: str
    # The channel is told of approvals that are still pending after so many seconds. Default: 0.
    after_s: int
    # What it is told of.
    events: Sequence[Literal["approval.requested", "approval.resolved"]]
    # Current status.
    status: Literal["enabled", "disabled"]
    # `sha256:` and the hash of the target: shows whether two targets are the same.
    target_hash: str
    # Null: it is enabled.
    disabled_reason: Literal["owner", "gone", "failing", None]
    # When the first attempt after the last success failed; null if none failed.
    failing_since: str | None
    # How many attempts have failed since the last success.
    failures: int
    # The last failure; null if the last attempt succeeded, or there was none.
    last_error: ChannelFailure | None
    # When a message was last sent; null: never.
    last_sent_at: str | None
    # When it was last changed.
    updated_at: str
    # Of the kind `webhook`: secret that signs its messages, `whsec_` and base64. Shown only once; stored
    # encrypted.
    secret: NotRequired[str]


class ChannelPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Channel]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class ChannelDeletion(TypedDict):
    # Id of the channel, `chan_…`.
    channel_id: str
    # Whether it is deleted.
    deleted: Literal[True]
    # When it was deleted.
    deleted_at: str


class ChannelFailure(TypedDict):
    # Why it failed: see docs/channels.md.
    code: Literal["timeout", "unreachable", "closed", "target_refused", "bad_answer", "mail_not_configured", "tls_missing", "tls_failed", "login_refused", "sender_refused", "recipient_refused", "message_refused"]
    # What the other side said, with everything that looks like a secret removed.
    detail: str
    # When it failed.
    at: str


class ChannelTestError(TypedDict):
    # For programs to branch on; a closed list, see docs/errors.md.
    code: Literal["timeout", "unreachable", "closed", "target_refused", "bad_answer", "mail_not_configured", "tls_missing", "tls_failed", "login_refused", "sender_refused", "recipient_refused", "message_refused"]
    # The reason as a sentence.
    detail: str


class ChannelTest(TypedDict):
    # Id of the channel, `chan_…`.
    channel_id: str
    # Whether the message was sent.
    sent: bool
    # How long it took, in milliseconds.
    latency_ms: int
    # Why it was not sent; null if it was.
    error: ChannelTestError | None


class WebhookCreation(TypedDict):
    # Where events are sent, over https; null if its deliveries are fetched instead.
    url: str | None
    # The events that it subscribes to.
    events: Sequence[Literal["passport.verified", "passport.denied", "passport.revoked", "gate.created", "shadow.ended", "spend_limit.approaching", "approval.requested", "approval.resolved", "hold.expired", "outcome.refused", "mcp_pin.changed", "history.regressed"]]
    # `standard`, or `cloudevents`: CloudEvents 1.0 in structured mode. Default: `standard`.
    format: NotRequired[Literal["standard", "cloudevents", None]]
    # Text for people.
    description: NotRequired[str | None]
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any] | None]


class WebhookUpdate(TypedDict):
    # Where events are sent, over https.
    url: NotRequired[str | None]
    # The events that it subscribes to.
    events: NotRequired[Sequence[Literal["passport.verified", "passport.denied", "passport.revoked", "gate.created", "shadow.ended", "spend_limit.approaching", "approval.requested", "approval.resolved", "hold.expired", "outcome.refused", "mcp_pin.changed", "history.regressed"]] | None]
    # What is sent from now on, also what waits.
    format: NotRequired[Literal["standard", "cloudevents", None]]
    # Text for people.
    description: NotRequired[str | None]
    # Replaces all labels.
    labels: NotRequired[Mapping[str, Any] | None]
    # Current status.
    status: NotRequired[Literal["enabled", "disabled", None]]
    # Id of the webhook, `wh_…`.
    webhook_id: NotRequired[str | None]
    # When it was created.
    created_at: NotRequired[str | None]
    # When it was last changed.
    updated_at: NotRequired[str | None]
    # Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
    # days; `unread`: nobody fetched for an hour; null if it is enabled.
    disabled_reason: NotRequired[Literal["owner", "gone", "failing", "unread", None]]
    # When the first attempt after the last success failed; null if none failed.
    failing_since: NotRequired[str | None]


class WebhookTest(TypedDict):
    # The event to send. Default: the first that the webhook subscribes to.
    event: NotRequired[Literal["passport.verified", "passport.denied", "passport.revoked", "gate.created", "shadow.ended", "spend_limit.approaching", "approval.requested", "approval.resolved", "hold.expired", "outcome.refused", "mcp_pin.changed", "history.regressed", None]]


class WebhookRecovery(TypedDict):
    # Deliveries created at or after this time.
    since: str


class Webhook(TypedDict):
    # Id of the webhook, `wh_…`.
    webhook_id: str
    # When it was created.
    created_at: str
    # When it was last changed.
    updated_at: str
    # Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
    # days; `unread`: nobody fetched for an hour; null if it is enabled.
    disabled_reason: Literal["owner", "gone", "failing", "unread", None]
    # When the first attempt after the last success failed; null if none failed.
    failing_since: str | None
    # Where events are sent, over https; null if its deliveries are fetched instead.
    url: str | None
    # The events that it subscribes to.
    events: Sequence[Literal["passport.verified", "passport.denied", "passport.revoked", "gate.created", "shadow.ended", "spend_limit.approaching", "approval.requested", "approval.resolved", "hold.expired", "outcome.refused", "mcp_pin.changed", "history.regressed"]]
    # What is sent: `standard`, or `cloudevents` for CloudEvents 1.0 in structured mode.
    format: Literal["standard", "cloudevents"]
    # Text for people.
    description: str | None
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # Current status.
    status: Literal["enabled", "disabled"]


class NewWebhook(TypedDict):
    # Id of the webhook, `wh_…`.
    webhook_id: str
    # When it was created.
    created_at: str
    # When it was last changed.
    updated_at: str
    # Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
    # days; `unread`: nobody fetched for an hour; null if it is enabled.
    disabled_reason: Literal["owner", "gone", "failing", "unread", None]
    # When the first attempt after the last success failed; null if none failed.
    failing_since: str | None
    # Where events are sent, over https; null if its deliveries are fetched instead.
    url: str | None
    # The events that it subscribes to.
    events: Sequence[Literal["passport.verified", "passport.denied", "passport.revoked", "gate.created", "shadow.ended", "spend_limit.approaching", "approval.requested", "approval.resolved", "hold.expired", "outcome.refused", "mcp_pin.changed", "history.regressed"]]
    # What is sent: `standard`, or `cloudevents` for CloudEvents 1.0 in structured mode.
    format: Literal["standard", "cloudevents"]
    # Text for people.
    description: str | None
    # Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
    # reads them. Absent: none.
    labels: NotRequired[Mapping[str, Any]]
    # Current status.
    status: Literal["enabled", "disabled"]
    # Secret that signs deliveries: `whsec_` and base64. Shown only once; stored encrypted.
    secret: NotRequired[str]


class WebhookPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Webhook]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class WebhookDeletion(TypedDict):
    # Id of the webhook, `wh_…`.
    webhook_id: str
    # Whether it is deleted.
    deleted: Literal[True]
    # When it was deleted.
    deleted_at: str


class WebhookRecovered(TypedDict):
    # How many deliveries are sent again.
    requeued: int
    # Whether there are more; if so, call again.
    has_more: bool


class DeliveryAttemptsItem(TypedDict):
    # Number of the attempt, from 1.
    attempt: int
    # When the attempt began.
    started_at: str
    # How long it took, in milliseconds.
    latency_ms: int
    # HTTP status of the answer; null if there was none.
    status_code: int | None
    # Why there was no answer; null if there was one.
    error: str | None
    # The first KiB of the answer, with everything that looks like a secret removed; null if there was none.
    response: str | None


class Delivery(TypedDict):
    # Id of the delivery, `dlv_…`.
    delivery_id: str
    # Id of the webhook, `wh_…`.
    webhook_id: str
    # Id of the event, `evt_…`: the `webhook-id` header, the same in every attempt and at every webhook.
    event_id: str
    # What happened.
    event: Literal["passport.verified", "passport.denied", "passport.revoked", "gate.created", "shadow.ended", "spend_limit.approaching", "approval.requested", "approval.resolved", "hold.expired", "outcome.refused", "mcp_pin.changed", "history.regressed"]
    # `pending`: an attempt is due or in flight; `failed`: given up until it is sent again.
    status: Literal["pending", "succeeded", "failed"]
    # The body that is sent.
    payload: Mapping[str, Any]
    # Number of attempts.
    attempt_count: int
    # The newest attempts, the last one first.
    attempts: Sequence[DeliveryAttemptsItem]
    # When the next attempt is due; null if none is.
    next_attempt_at: str | None
    # When it was created.
    created_at: str


class DeliveryPage(TypedDict):
    # The objects of this page, newest first.
    items: Sequence[Delivery]
    # Total number.
    total: int
    # Maximum number of objects to return.
    limit: int
    # Number of objects to skip.
    offset: int
    # `cursor` of the next page; null on the last page.
    next_cursor: str | None


class PassportVerifiedEventData(TypedDict):
    """Details of the event."""

    # Id of the passport, `pass_…`.
    passport_id: str
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str | None
    # Id of the gate, `gate_…`.
    gate_id: str | None
    # What was decided.
    decision: Literal["allow"]
    # Reason code; null for a PERMIT.
    reason: None
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str


class PassportVerifiedEvent(TypedDict):
    # What happened.
    event: Literal["passport.verified"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: PassportVerifiedEventData


class PassportDeniedEventData(TypedDict):
    """Details of the event."""

    # Id of the passport, `pass_…`.
    passport_id: str | None
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str | None
    # Id of the gate, `gate_…`.
    gate_id: str | None
    # What was decided.
    decision: Literal["block"]
    # Reason code; null for a PERMIT.
    reason: Literal["passport_malformed", "passport_signature_invalid", "passport_not_yet_valid", "passport_expired", "passport_revoked", "passport_suspended", "passport_unknown_key", "mode_mismatch", "trust_level_insufficient", "issuer_untrusted", "issuer_keys_stale", "proof_missing", "proof_invalid", "proof_replayed", "permission_missing", "permission_not_granted", "permission_not_in_catalog", "condition_not_met", "condition_error", "domain_not_allowed", "domain_missing", "pii_detected", "currency_unsupported", "amount_missing", "spend_limit_exceeded", "rate_limit_exceeded", "quota_unavailable", "state_stale", "approval_required", "approval_denied", "approval_expired", "approval_used", "approval_mismatch", "approvals_pending_exceeded", "wallet_limit_exceeded", "wallet_frozen"]
    # Id of the record of this decision, `att_…`; null for a SUSPEND.
    attestation_id: str


class PassportDeniedEvent(TypedDict):
    # What happened.
    event: Literal["passport.denied"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: PassportDeniedEventData


class PassportRevokedEventData(TypedDict):
    """Details of the event."""

    # Id of the passport, `pass_…`.
    passport_id: str
    # The caller's own identifier for the agent. Unique among the passports of an account and mode that are
    # active or suspended.
    agent_id: str
    # When the passport was revoked; null if it is not revoked.
    revoked_at: str
    # Reason, kept for the record.
    reason: str


class PassportRevokedEvent(TypedDict):
    # What happened.
    event: Literal["passport.revoked"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: PassportRevokedEventData


class GateCreatedEventData(TypedDict):
    """Details of the event."""

    # Id of the gate, `gate_…`.
    gate_id: str
    # Name, for people.
    name: str
    # Minimum trust tier of a passport.
    trust_level: Literal["L1", "L2", "L3"]
    # URL of the gate itself, for proxies.
    gate_url: str


class GateCreatedEvent(TypedDict):
    # What happened.
    event: Literal["gate.created"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: GateCreatedEventData


class ShadowEndedEventData(TypedDict):
    """Details of the event."""

    # Id of the gate, `gate_…`.
    gate_id: str
    # Hash of the policy that decided; null without a gate, or if the policy is not on record.
    policy_hash: str
    # Hash of the live policy that it was made of.
    base_policy_hash: str
    # Reason code; null for a PERMIT.
    reason: Literal["policy_changed", "gate_deleted", "deleted", "replaced", "promoted"]


class ShadowEndedEvent(TypedDict):
    # What happened.
    event: Literal["shadow.ended"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: ShadowEndedEventData


class SpendLimitApproachingEventData(TypedDict):
    """Details of the event."""

    # Id of the gate, `gate_…`.
    gate_id: str | None
    # Id of the passport, `pass_…`.
    passport_id: str | None
    # Id of the wallet, `wal_…`.
    wallet_id: str | None
    # Which window of the limit: the UTC day or the UTC month.
    window: Literal["hour", "day", "month", "total"]
    # The limit, in USD.
    limit_usd: float
    # What was spent in this window, in USD.
    spent_usd: float
    # `spent_usd` of `limit_usd`, cut to four decimals.
    fraction: float


class SpendLimitApproachingEvent(TypedDict):
    # What happened.
    event: Literal["spend_limit.approaching"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: SpendLimitApproachingEventData


class ApprovalRequestedEvent(TypedDict):
    # What happened.
    event: Literal["approval.requested"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: Approval


class ApprovalResolvedEvent(TypedDict):
    # What happened.
    event: Literal["approval.resolved"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: Approval


class HoldExpiredEvent(TypedDict):
    # What happened.
    event: Literal["hold.expired"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: PermitOutcome


class OutcomeRefusedEvent(TypedDict):
    # What happened.
    event: Literal["outcome.refused"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: ReportedOutcome


class McpPinChangedEvent(TypedDict):
    # What happened.
    event: Literal["mcp_pin.changed"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: McpPinListItem


class HistoryRegressedEventDataMissing(TypedDict):
    """What it lacks, as far as sidecars have shown; null: nothing."""

    # How many revisions of feeds.
    changes: int
    # The chains in ascending order of `chain_id`, each with its records; at the end, how many.
    chains: int
    # How many records there are in all.
    records: int
    # The entries of this page.
    entries: int


class HistoryRegressedEventData(TypedDict):
    """Details of the event."""

    # Name of the history of the database.
    generation: str
    # What it lacks, as far as sidecars have shown; null: nothing.
    missing: HistoryRegressedEventDataMissing


class HistoryRegressedEvent(TypedDict):
    # What happened.
    event: Literal["history.regressed"]
    # When it happened.
    timestamp: str
    # Details of the event.
    data: HistoryRegressedEventData


class JwksKeysItem(TypedDict):
    # Key type (RFC 8037).
    kty: Literal["OKP"]
    # Curve (RFC 8037).
    crv: Literal["Ed25519"]
    # Algorithm (RFC 7518).
    alg: Literal["EdDSA"]
    # What the key is for (RFC 7517).
    use: Literal["sig"]
    # RFC 7638 thumbprint of the key.
    kid: str
    # What the key signs. It verifies nothing else.
    purpose: Literal["passport", "catalog", "attestation", "log"]
    # base64url of the 32 bytes of the public key.
    x: str
    # When the key starts to sign, in Unix seconds.
    nbf: int
    # When the key stops signing; null if it signs now, or will.
    retired_at: str | None
    # Whether somebody else may have the private key: then its signatures prove nothing.
    compromised: bool


class Jwks(TypedDict):
    # Name of the history of the database.
    generation: NotRequired[str]
    # All keys, whatever their purpose.
    keys: Sequence[JwksKeysItem]


class RevokedSidecarKeys(TypedDict):
    # Oldest first.
    revoked: Sequence[RevokedSidecarKey]


class SidecarKeyRevocation(TypedDict):
    # `kid` of the certificate in its receipts.
    kid: str


class RevokedSidecarKey(TypedDict):
    # `kid` of the certificate in its receipts.
    kid: str
    # When it was revoked. Receipts from before prove nothing either.
    revoked_at: str


class ReceiptShowing(TypedDict):
    # The member `receipt` of an answer.
    receipt: Receipt


class ReceiptReport(TypedDict):
    # Id of the record.
    attestation_id: str
    # `on_record`: it is as the receipt says. `awaited`: it is promised for later. `archived`: an archive
    # may have it. `missing`, `contradicted`: it is not there, or says something else.
    state: Literal["on_record", "awaited", "archived", "missing", "contradicted"]
    # `regressed`: the database lacks what it told some sidecar before (docs/operate/disaster.md).
    history: Literal["whole", "regressed"]


class KeyRotationRequest(TypedDict):
    # What the key signs. It verifies nothing else.
    purpose: Literal["passport", "catalog", "attestation", "sync", "log"]
    # Whether somebody else may have the private key: then its signatures prove nothing.
    compromised: NotRequired[bool | None]
    # RFC 7638 thumbprint of the key.
    kid: NotRequired[str | None]


class KeyRotationPrevious(TypedDict):
    """The key that it replaces."""

    # RFC 7638 thumbprint of the key.
    kid: str
    # When the key stops signing; null if it signs now, or will.
    retired_at: str
    # Whether somebody else may have the private key: then its signatures prove nothing.
    compromised: bool


class KeyRotation(TypedDict):
    # What the key signs. It verifies nothing else.
    purpose: Literal["passport", "catalog", "attestation", "sync", "log"]
    # RFC 7638 thumbprint of the key.
    kid: str
    # When the next key starts to sign.
    not_before: str
    # The key that it replaces.
    previous: KeyRotationPrevious


class ReadinessReplica(TypedDict):
    # False: lists, exports, discovery and statistics are read at the primary.
    in_use: bool
    # Why it is not in use; null: it is.
    reason: Literal["away", "behind", "not_following", "another_cluster", None]
    # How old what it answers may be, in milliseconds; null: unknown.
    staleness_ms: int | None


class ReadinessHistoryMissing(TypedDict):
    # How many revisions of feeds.
    changes: int
    # The chains in ascending order of `chain_id`, each with its records; at the end, how many.
    chains: int
    # How many records there are in all.
    records: int
    # How many entries of the transparency log, as far as its witnesses have shown.
    entries: int


class ReadinessHistory(TypedDict):
    """Whether the database has all that sidecars were told."""

    # Of the history: `regressed`: the database lacks something; only reads, decisions and revocations are
    # served. Of the log: `unconfirmed` by its witnesses, or `regressed` with the history: nothing is
    # signed.
    state: Literal["whole", "regressed"]
    # What it lacks, as far as sidecars have shown; null: nothing.
    missing: ReadinessHistoryMissing | None


class ReadinessLogWitnessesItem(TypedDict):
    # Name of the witness in the policy.
    name: str
    # Why it has not cosigned the newest checkpoint; null: it has.
    fault: str | None
    # Entries in the newest checkpoint; of a witness: in the newest that it cosigned.
    size: int
    # When it cosigned last; null: never.
    cosigned_at: str | None


class ReadinessLog(TypedDict):
    """The transparency log, as this program knows it (docs/log.md)."""

    # Of the history: `regressed`: the database lacks something; only reads, decisions and revocations are
    # served. Of the log: `unconfirmed` by its witnesses, or `regressed` with the history: nothing is
    # signed.
    state: Literal["working", "unconfirmed", "regressed"]
    # The origin line of its checkpoints; null: it has not begun.
    origin: str | None
    # Entries in the newest checkpoint; of a witness: in the newest that it cosigned.
    size: int
    # When the newest checkpoint was published; null: none yet.
    published_at: str | None
    # Entries in the newest checkpoint that the quorum of its witnesses cosigned.
    witnessed_size: int
    # When that one was published; null: none yet.
    witnessed_at: str | None
    # The witnesses of `LOG_WITNESSES`, as the writer of the log heard from them last.
    witnesses: Sequence[ReadinessLogWitnessesItem]


class ReadinessSidecars(TypedDict):
    # How many of them are connected.
    connected: int
    # Largest clock offset of any of them, in milliseconds.
    clock_offset_ms_max: int


class Readiness(TypedDict):
    # Current status.
    status: Literal["ready", "not_ready"]
    # Whether this process is about to stop. It still answers; send it no new requests.
    draining: bool
    # Whether PostgreSQL can be reached and is migrated.
    database: Literal["reachable", "unreachable", "not_migrated"]
    # How many connections to PostgreSQL this program may open: `DATABASE_CONNECTIONS`.
    database_connections_max: int
    # How many connections PostgreSQL has refused since the start, because it had no more.
    database_connections_refused: int
    # The replica of `DATABASE_READ_URL`; null: none is set.
    replica: ReadinessReplica | None
    # Whether this process appends to the chains of records: working, or stopped by an internal error until
    # it is restarted.
    appending: Literal["working", "stopped"]
    # Whether changes are pushed to the sidecars; without it they poll.
    push: Literal["connected", "disconnected"]
    # How many pushed messages could not be sent.
    push_lost: int
    # How many rows of `signing_keys` nobody with MASTER_KEY wrote. They are published nowhere; the log
    # names them.
    bad_signing_keys: int
    # `settled`: one master key seals everything. `changing`: secrets are sealed with a new one; `waiting`:
    # not all control planes have it yet. `missing`: one is in use that this program was not given.
    master_key: Literal["settled", "waiting", "changing", "missing"]
    # Whether the database has all that sidecars were told.
    history: ReadinessHistory
    # The transparency log, as this program knows it (docs/log.md).
    log: ReadinessLog
    # The sidecars of this service; null if unknown.
    sidecars: ReadinessSidecars | None


class GetLivenessAnswer(TypedDict):
    # Current status.
    status: Literal["live"]


class Operations:
    """Every operation of the API as a method, by its operationId (docs/api.md)."""

    def _call(
        self,
        method: str,
        path: str,
        flags: str,
        *,
        path_ids: Mapping[str, str],
        query: Mapping[str, str | int | None],
        headers: Mapping[str, str | None],
        body: Any,
        deadline_ms: float | None,
    ) -> Any:
        raise NotImplementedError

    def get_jwks(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> Jwks:
        """Get the public keys of this service (RFC 7517). Public: needs no key."""
        answer: Jwks = self._call(
            "GET",
            "/.well-known/jwks.json",
            "",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_revoked_sidecar_keys(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> RevokedSidecarKeys:
        """Get the keys of sidecars that were revoked. Public: needs no key."""
        answer: RevokedSidecarKeys = self._call(
            "GET",
            "/.well-known/sidecar-keys.json",
            "",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def issue_passport_unattended(
        self,
        body: UnattendedIssue | MachineIssue,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> IssuedPassport:
        """Issue a passport without a person present. Needs a key with the scope `passports:issue`."""
        answer: IssuedPassport = self._call(
            "POST",
            "/api/passports",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_liveness(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> GetLivenessAnswer:
        """Ask whether this process answers. Public: needs no key."""
        answer: GetLivenessAnswer = self._call(
            "GET",
            "/livez",
            "",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_metrics(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> str:
        """Get the metrics as Prometheus text. Public: needs no key."""
        answer: str = self._call(
            "GET",
            "/metrics",
            "text",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_readiness(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> Readiness:
        """Ask whether this process can serve. Public: needs no key."""
        answer: Readiness = self._call(
            "GET",
            "/readyz",
            "status",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_account(
        self,
        body: AccountCreation,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> NewAccount:
        """Create an account with its first API key. Needs a live key of the operator with the scope
        `admin:*`.
        """
        answer: NewAccount = self._call(
            "POST",
            "/v1/accounts",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_accounts(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> AccountPage:
        """List accounts, newest first. Needs a live key of the operator with the scope `admin:*`."""
        answer: AccountPage = self._call(
            "GET",
            "/v1/accounts",
            "",
            path_ids={},
            query={"limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_account(
        self,
        account_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Account:
        """Get an account. Needs a live key of the operator with the scope `admin:*`."""
        answer: Account = self._call(
            "GET",
            "/v1/accounts/{id}",
            "",
            path_ids={"id": account_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def update_account(
        self,
        account_id: str,
        body: AccountUpdate | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Account:
        """Change an account. Needs a live key of the operator with the scope `admin:*`."""
        answer: Account = self._call(
            "PUT",
            "/v1/accounts/{id}",
            "body",
            path_ids={"id": account_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_api_key(
        self,
        body: ApiKeyCreation,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> NewApiKey:
        """Create an API key. Needs a key with the scope `keys:manage`."""
        answer: NewApiKey = self._call(
            "POST",
            "/v1/api-keys",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_api_keys(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> ApiKeyPage:
        """List API keys, newest first. Needs a key with the scope `keys:manage`."""
        answer: ApiKeyPage = self._call(
            "GET",
            "/v1/api-keys",
            "",
            path_ids={},
            query={"name": name, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_api_key(
        self,
        api_key_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> ApiKey:
        """Get an API key. Needs a key with the scope `keys:manage`."""
        answer: ApiKey = self._call(
            "GET",
            "/v1/api-keys/{id}",
            "",
            path_ids={"id": api_key_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def delete_api_key(
        self,
        api_key_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> ApiKeyDeletion:
        """Delete an API key at once. Needs a key with the scope `keys:manage`."""
        answer: ApiKeyDeletion = self._call(
            "DELETE",
            "/v1/api-keys/{id}",
            "",
            path_ids={"id": api_key_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def roll_api_key(
        self,
        api_key_id: str,
        body: Roll | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> NewApiKey:
        """Replace an API key by a new one. Needs a key with the scope `keys:manage`."""
        answer: NewApiKey = self._call(
            "POST",
            "/v1/api-keys/{id}/roll",
            "body",
            path_ids={"id": api_key_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_approvals(
        self,
        *,
        status: Literal["pending", "approved", "denied", "expired", "used"] | None = None,
        waiting_for: Literal["me"] | None = None,
        user: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> ApprovalPage:
        """List approvals at your gates, newest first. Needs a key with the scope `approvals:read`."""
        answer: ApprovalPage = self._call(
            "GET",
            "/v1/approvals",
            "",
            path_ids={},
            query={"status": status, "waiting_for": waiting_for, "user": user, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_standing_approval(
        self,
        body: StandingApprovalCreation,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> StandingApproval:
        """Approve requests ahead. Needs a key with the scope `approvals:resolve`."""
        answer: StandingApproval = self._call(
            "POST",
            "/v1/approvals/standing",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_standing_approvals(
        self,
        *,
        status: Literal["active", "expired", "revoked", "policy_changed"] | None = None,
        gate_id: str | None = None,
        passport_id: str | None = None,
        owner: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> StandingApprovalPage:
        """List standing approvals at your gates, newest first. Needs a key with the scope
        `approvals:read`.
        """
        answer: StandingApprovalPage = self._call(
            "GET",
            "/v1/approvals/standing",
            "",
            path_ids={},
            query={"status": status, "gate_id": gate_id, "passport_id": passport_id, "owner": owner, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_standing_approval(
        self,
        approval_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> StandingApproval:
        """Get a standing approval, with what is used of it. Needs a key with the scope `approvals:read`."""
        answer: StandingApproval = self._call(
            "GET",
            "/v1/approvals/standing/{id}",
            "",
            path_ids={"id": approval_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def end_standing_approval(
        self,
        approval_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> StandingApproval:
        """End a standing approval at once. Needs a key with the scope `approvals:resolve`."""
        answer: StandingApproval = self._call(
            "DELETE",
            "/v1/approvals/standing/{id}",
            "",
            path_ids={"id": approval_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_approval(
        self,
        approval_id: str,
        *,
        wait_ms: int | None = None,
        deadline_ms: float | None = None,
    ) -> ApprovalDetail:
        """Get an approval. Needs a key with the scope `approvals:read`."""
        answer: ApprovalDetail = self._call(
            "GET",
            "/v1/approvals/{id}",
            "",
            path_ids={"id": approval_id},
            query={"wait_ms": wait_ms},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def approve_approval(
        self,
        approval_id: str,
        body: ApprovalResolution | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Approval:
        """Approve a request. Needs a key with the scope `approvals:resolve`."""
        answer: Approval = self._call(
            "POST",
            "/v1/approvals/{id}/approve",
            "body",
            path_ids={"id": approval_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def deny_approval(
        self,
        approval_id: str,
        body: ApprovalResolution | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Approval:
        """Deny a request. Needs a key with the scope `approvals:resolve`."""
        answer: Approval = self._call(
            "POST",
            "/v1/approvals/{id}/deny",
            "body",
            path_ids={"id": approval_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def undo_approval(
        self,
        approval_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Approval:
        """Take an answer back. Needs a key with the scope `approvals:resolve`."""
        answer: Approval = self._call(
            "POST",
            "/v1/approvals/{id}/undo",
            "",
            path_ids={"id": approval_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_attestations(
        self,
        *,
        passport_id: str | None = None,
        gate_id: str | None = None,
        agent_id: str | None = None,
        decision: Literal["PERMIT", "SUSPEND", "BLOCK"] | None = None,
        reason: Literal["passport_malformed", "passport_signature_invalid", "passport_not_yet_valid", "passport_expired", "passport_revoked", "passport_suspended", "passport_unknown_key", "mode_mismatch", "trust_level_insufficient", "issuer_untrusted", "issuer_keys_stale", "proof_missing", "proof_invalid", "proof_replayed", "permission_missing", "permission_not_granted", "permission_not_in_catalog", "condition_not_met", "condition_error", "domain_not_allowed", "domain_missing", "pii_detected", "currency_unsupported", "amount_missing", "spend_limit_exceeded", "rate_limit_exceeded", "quota_unavailable", "state_stale", "approval_required", "approval_denied", "approval_expired", "approval_used", "approval_mismatch", "approvals_pending_exceeded", "wallet_limit_exceeded", "wallet_frozen"] | None = None,
        permission_key: str | None = None,
        outcome: Literal["missing", "served", "failed"] | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> AttestationPage:
        """List attestations, newest first. Needs a key with the scope `attestations:read`."""
        answer: AttestationPage = self._call(
            "GET",
            "/v1/attestations",
            "",
            path_ids={},
            query={"passport_id": passport_id, "gate_id": gate_id, "agent_id": agent_id, "decision": decision, "reason": reason, "permission_key": permission_key, "outcome": outcome, "since": since, "until": until, "limit": limit, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def export_attestations(
        self,
        *,
        format: Literal["json", "jsonl", "csv", "dsse", "ocsf"] | None = None,
        since: str | None = None,
        as_of: str | None = None,
        facts: Literal["1"] | None = None,
        deadline_ms: float | None = None,
    ) -> BinaryIO:
        """Export whole chains, for offline verification. Needs a key with the scope `attestations:read`."""
        answer: BinaryIO = self._call(
            "GET",
            "/v1/attestations/export",
            "stream",
            path_ids={},
            query={"format": format, "since": since, "as_of": as_of, "facts": facts},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_retention(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> Retention:
        """Get how long the account keeps records in the database. Needs a key with the scope
        `attestations:read`.
        """
        answer: Retention = self._call(
            "GET",
            "/v1/attestations/retention",
            "",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def set_retention(
        self,
        body: RetentionUpdate,
        *,
        deadline_ms: float | None = None,
    ) -> Retention:
        """Set how long the account keeps records in the database. Needs a key with the scope
        `keys:manage`.
        """
        answer: Retention = self._call(
            "PUT",
            "/v1/attestations/retention",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_attestation(
        self,
        attestation_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Attestation:
        """Get an attestation. Needs a key with the scope `attestations:read`."""
        answer: Attestation = self._call(
            "GET",
            "/v1/attestations/{id}",
            "",
            path_ids={"id": attestation_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_attestation_facts(
        self,
        attestation_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> AttestationFacts:
        """Get what opens the commitments of an attestation. Needs a key with the scope
        `attestations:read`.
        """
        answer: AttestationFacts = self._call(
            "GET",
            "/v1/attestations/{id}/facts",
            "",
            path_ids={"id": attestation_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def extend_hold(
        self,
        attestation_id: str,
        body: HoldExtension,
        *,
        deadline_ms: float | None = None,
    ) -> PermitOutcome:
        """Extend a hold. Needs a key with the scope `enforcement:check`."""
        answer: PermitOutcome = self._call(
            "POST",
            "/v1/attestations/{id}/hold/extend",
            "body",
            path_ids={"id": attestation_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def report_outcome(
        self,
        attestation_id: str,
        body: OutcomeReport,
        *,
        deadline_ms: float | None = None,
    ) -> PermitOutcome:
        """Report the outcome of what a PERMIT allowed. Needs a key with the scope `enforcement:check`."""
        answer: PermitOutcome = self._call(
            "POST",
            "/v1/attestations/{id}/outcome",
            "body",
            path_ids={"id": attestation_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_outcome(
        self,
        attestation_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> PermitOutcome:
        """Get what a PERMIT counts now, and why. Needs a key with the scope `attestations:read`."""
        answer: PermitOutcome = self._call(
            "GET",
            "/v1/attestations/{id}/outcome",
            "",
            path_ids={"id": attestation_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_attestation_proof(
        self,
        attestation_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> str:
        """Prove that a record is in the transparency log (C2SP tlog-proof). Needs a key with the scope
        `attestations:read`.
        """
        answer: str = self._call(
            "GET",
            "/v1/attestations/{id}/proof",
            "text",
            path_ids={"id": attestation_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def refund_permit(
        self,
        attestation_id: str,
        body: RefundRequest | None = None,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> PermitOutcome:
        """Refund what a PERMIT counts, or a part of it. Needs a key with the scope `enforcement:check`."""
        answer: PermitOutcome = self._call(
            "POST",
            "/v1/attestations/{id}/refund",
            "body creates",
            path_ids={"id": attestation_id},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_audit_entries(
        self,
        *,
        actor: str | None = None,
        operation: Literal["issuePassport", "issuePassportUnattended", "revokePassport", "suspendPassport", "reactivatePassport", "suspendOwner", "reactivateOwner", "revokeSubject", "receiveSecurityEvent", "createGate", "updateGate", "deleteGate", "putShadow", "deleteShadow", "promoteShadow", "publishCatalog", "createIssuer", "updateIssuer", "createTemplate", "approveApproval", "denyApproval", "undoApproval", "refundPermit", "acceptMcpPin", "rejectMcpPin", "createWallet", "updateWallet", "freezeWallet", "unfreezeWallet", "deleteWallet", "setPassportWallet", "createStandingApproval", "endStandingApproval", "createApiKey", "rollApiKey", "deleteApiKey", "setRetention", "getAttestationFacts", "setAuthzenVocabulary", "createWebhook", "updateWebhook", "deleteWebhook", "rollWebhookSecret", "testWebhook", "resendDelivery", "recoverWebhook", "createChannel", "updateChannel", "deleteChannel", "testChannel", "createAccount", "updateAccount", "rotateSigningKey", "revokeSidecarKey", "logIn", "logInWithOidc", "logInWithPasskey", "logOut", "endSession", "inviteUser", "renewInvitation", "acceptInvitation", "confirmUser", "updateUser", "deleteUser", "changePassword", "beginTotp", "confirmTotp", "removeTotp", "addPasskey", "renamePasskey", "removePasskey"] | None = None,
        target: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> AuditPage:
        """List who changed what, newest first. Needs a key with the scope `audit:read`."""
        answer: AuditPage = self._call(
            "GET",
            "/v1/audit",
            "",
            path_ids={},
            query={"actor": actor, "operation": operation, "target": target, "since": since, "until": until, "limit": limit, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def export_audit(
        self,
        *,
        since: str | None = None,
        deadline_ms: float | None = None,
    ) -> BinaryIO:
        """Export who changed what, for offline verification. Needs a key with the scope `audit:read`."""
        answer: BinaryIO = self._call(
            "GET",
            "/v1/audit/export",
            "stream",
            path_ids={},
            query={"since": since},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_authzen_vocabulary(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> AuthzenVocabulary:
        """Get the AuthZEN vocabulary of the account. Needs a key with the scope `gates:read`."""
        answer: AuthzenVocabulary = self._call(
            "GET",
            "/v1/authzen/vocabulary",
            "",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def set_authzen_vocabulary(
        self,
        body: AuthzenVocabulary,
        *,
        deadline_ms: float | None = None,
    ) -> AuthzenVocabulary:
        """Replace the AuthZEN vocabulary of the account. Needs a key with the scope `gates:update`."""
        answer: AuthzenVocabulary = self._call(
            "PUT",
            "/v1/authzen/vocabulary",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_backtest(
        self,
        backtest_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Backtest:
        """Get a backtest, with its report once it is done. Needs a key with the scope `gates:read`."""
        answer: Backtest = self._call(
            "GET",
            "/v1/backtests/{id}",
            "",
            path_ids={"id": backtest_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def cancel_backtest(
        self,
        backtest_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Backtest:
        """Cancel a backtest. Needs a key with the scope `gates:read`."""
        answer: Backtest = self._call(
            "DELETE",
            "/v1/backtests/{id}",
            "",
            path_ids={"id": backtest_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_channel(
        self,
        body: ChannelCreation,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> NewChannel:
        """Add a channel that tells people of approvals. Needs a key with the scope `webhooks:manage`."""
        answer: NewChannel = self._call(
            "POST",
            "/v1/channels",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_channels(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> ChannelPage:
        """List channels, newest first. Needs a key with the scope `webhooks:manage`."""
        answer: ChannelPage = self._call(
            "GET",
            "/v1/channels",
            "",
            path_ids={},
            query={"name": name, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_channel(
        self,
        channel_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Channel:
        """Get a channel and how its last messages went. Needs a key with the scope `webhooks:manage`."""
        answer: Channel = self._call(
            "GET",
            "/v1/channels/{id}",
            "",
            path_ids={"id": channel_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def update_channel(
        self,
        channel_id: str,
        body: ChannelUpdate | None = None,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Channel:
        """Change a channel. Needs a key with the scope `webhooks:manage`."""
        answer: Channel = self._call(
            "PATCH",
            "/v1/channels/{id}",
            "body",
            path_ids={"id": channel_id},
            query={},
            headers={"if-match": if_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def delete_channel(
        self,
        channel_id: str,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> ChannelDeletion:
        """Delete a channel. Needs a key with the scope `webhooks:manage`."""
        answer: ChannelDeletion = self._call(
            "DELETE",
            "/v1/channels/{id}",
            "",
            path_ids={"id": channel_id},
            query={},
            headers={"if-match": if_match},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def test_channel(
        self,
        channel_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> ChannelTest:
        """Send a test message to a channel, now. Needs a key with the scope `webhooks:manage`."""
        answer: ChannelTest = self._call(
            "POST",
            "/v1/channels/{id}/test",
            "",
            path_ids={"id": channel_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def check_condition(
        self,
        body: ConditionCheckRequest,
        *,
        deadline_ms: float | None = None,
    ) -> ConditionCheck:
        """Check a condition without writing it. Needs a key with the scope `gates:read`."""
        answer: ConditionCheck = self._call(
            "POST",
            "/v1/conditions/check",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def discover_gates(
        self,
        *,
        capability: str,
        max_price_cents: int | None = None,
        min_uptime_bp: int | None = None,
        max_response_time_ms: int | None = None,
        pricing_model: Literal["per_call", "per_minute", "subscription"] | None = None,
        currency: str | None = None,
        min_security_profile: Literal["L1", "L2", "L3"] | None = None,
        sort: Literal["price_asc", "price_desc", "uptime_desc", "response_asc"] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> Discovery:
        """Find gates by a capability, with their prices. Public: needs no key."""
        answer: Discovery = self._call(
            "GET",
            "/v1/discover",
            "",
            path_ids={},
            query={"capability": capability, "max_price_cents": max_price_cents, "min_uptime_bp": min_uptime_bp, "max_response_time_ms": max_response_time_ms, "pricing_model": pricing_model, "currency": currency, "min_security_profile": min_security_profile, "sort": sort, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def enforce(
        self,
        body: CheckRequest,
        *,
        deadline_ms: float | None = None,
    ) -> ServiceDecision:
        """Decide without a gate in the URL. Needs a key with the scope `enforcement:check`."""
        answer: ServiceDecision = self._call(
            "POST",
            "/v1/enforce",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_gate(
        self,
        body: GateCreation,
        *,
        idempotency_key: str | None = None,
        if_none_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> NewGate:
        """Create a gate. Needs a key with the scope `gates:create`."""
        answer: NewGate = self._call(
            "POST",
            "/v1/gates",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key, "if-none-match": if_none_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_gates(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> GatePage:
        """List gates, newest first. Needs a key with the scope `gates:read`."""
        answer: GatePage = self._call(
            "GET",
            "/v1/gates",
            "",
            path_ids={},
            query={"name": name, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_gate(
        self,
        gate_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> GateWithStats:
        """Get a gate with its constraints and counts. Needs a key with the scope `gates:read`."""
        answer: GateWithStats = self._call(
            "GET",
            "/v1/gates/{id}",
            "",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def update_gate(
        self,
        gate_id: str,
        body: GatePatch | None = None,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Gate:
        """Change a gate. Needs a key with the scope `gates:update`."""
        answer: Gate = self._call(
            "PUT",
            "/v1/gates/{id}",
            "body",
            path_ids={"id": gate_id},
            query={},
            headers={"if-match": if_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def delete_gate(
        self,
        gate_id: str,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> GateDeletion:
        """Delete a gate. Needs a key with the scope `gates:manage`."""
        answer: GateDeletion = self._call(
            "DELETE",
            "/v1/gates/{id}",
            "",
            path_ids={"id": gate_id},
            query={},
            headers={"if-match": if_match},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def start_backtest(
        self,
        gate_id: str,
        body: BacktestRequest | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Backtest:
        """See what a policy would have decided. Needs a key with the scope `gates:read`."""
        answer: Backtest = self._call(
            "POST",
            "/v1/gates/{id}/backtest",
            "body",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def publish_catalog(
        self,
        gate_id: str,
        body: CatalogPublication,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> Catalog:
        """Publish the next version of a gate's catalog. Needs a key with the scope `gates:update`."""
        answer: Catalog = self._call(
            "POST",
            "/v1/gates/{id}/catalog",
            "body creates",
            path_ids={"id": gate_id},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_catalog(
        self,
        gate_id: str,
        *,
        version: int | None = None,
        if_none_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Catalog | None:
        """Get a catalog: the newest, or the given version. Public: needs no key."""
        answer: Catalog | None = self._call(
            "GET",
            "/v1/gates/{id}/catalog",
            "",
            path_ids={"id": gate_id},
            query={"version": version},
            headers={"if-none-match": if_none_match},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def check_gate(
        self,
        gate_id: str,
        body: CheckRequest,
        *,
        deadline_ms: float | None = None,
    ) -> ServiceDecision:
        """Decide whether this passport may do this at this gate, now. Needs a key with the scope
        `enforcement:check`.
        """
        answer: ServiceDecision = self._call(
            "POST",
            "/v1/gates/{id}/check",
            "body",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def check_gate_batch(
        self,
        gate_id: str,
        body: CheckBatchRequest,
        *,
        deadline_ms: float | None = None,
    ) -> CheckBatch:
        """Decide many requests at one gate in one call. Needs a key with the scope `enforcement:check`."""
        answer: CheckBatch = self._call(
            "POST",
            "/v1/gates/{id}/check/batch",
            "body",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_gate_policies(
        self,
        gate_id: str,
        *,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> GatePolicyPage:
        """List the policies that a gate has had, newest first. Needs a key with the scope `gates:read`."""
        answer: GatePolicyPage = self._call(
            "GET",
            "/v1/gates/{id}/policies",
            "",
            path_ids={"id": gate_id},
            query={"limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def put_shadow(
        self,
        gate_id: str,
        body: ShadowPatch | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Shadow:
        """Try a policy beside the one that a gate has. Needs a key with the scope `gates:update`."""
        answer: Shadow = self._call(
            "PUT",
            "/v1/gates/{id}/shadow",
            "body",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_shadow(
        self,
        gate_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Shadow:
        """Get the policy that a gate tries. Needs a key with the scope `gates:read`."""
        answer: Shadow = self._call(
            "GET",
            "/v1/gates/{id}/shadow",
            "",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def delete_shadow(
        self,
        gate_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> ShadowDeletion:
        """End the shadow of a gate. Needs a key with the scope `gates:update`."""
        answer: ShadowDeletion = self._call(
            "DELETE",
            "/v1/gates/{id}/shadow",
            "",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def promote_shadow(
        self,
        gate_id: str,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Gate:
        """Make the shadow of a gate its policy. Needs a key with the scope `gates:update`."""
        answer: Gate = self._call(
            "POST",
            "/v1/gates/{id}/shadow/promote",
            "",
            path_ids={"id": gate_id},
            query={},
            headers={"if-match": if_match},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_shadow_report(
        self,
        gate_id: str,
        *,
        since: str | None = None,
        until: str | None = None,
        deadline_ms: float | None = None,
    ) -> Difference:
        """See what the shadow of a gate would have decided. Needs a key with the scope `gates:read`."""
        answer: Difference = self._call(
            "GET",
            "/v1/gates/{id}/shadow/report",
            "",
            path_ids={"id": gate_id},
            query={"since": since, "until": until},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def test_gate(
        self,
        gate_id: str,
        body: GateTestRequest,
        *,
        deadline_ms: float | None = None,
    ) -> GateTest:
        """Ask what a gate would decide. Needs a key with the scope `gates:read`."""
        answer: GateTest = self._call(
            "POST",
            "/v1/gates/{id}/test",
            "body",
            path_ids={"id": gate_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_holds(
        self,
        *,
        status: Literal["open", "settled", "released", "expired"] | None = None,
        gate_id: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> HoldPage:
        """List holds at your gates, newest first. Needs a key with the scope `attestations:read`."""
        answer: HoldPage = self._call(
            "GET",
            "/v1/holds",
            "",
            path_ids={},
            query={"status": status, "gate_id": gate_id, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_issuer(
        self,
        body: IssuerCreation,
        *,
        idempotency_key: str | None = None,
        if_none_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Issuer:
        """Create an issuer. Needs a key with the scope `issuers:create`."""
        answer: Issuer = self._call(
            "POST",
            "/v1/issuers",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key, "if-none-match": if_none_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_issuers(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> IssuerPage:
        """List issuers, newest first. Needs a key with the scope `issuers:read`."""
        answer: IssuerPage = self._call(
            "GET",
            "/v1/issuers",
            "",
            path_ids={},
            query={"name": name, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_issuer(
        self,
        issuer_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Issuer:
        """Get an issuer with counts of its passports. Needs a key with the scope `issuers:read`."""
        answer: Issuer = self._call(
            "GET",
            "/v1/issuers/{id}",
            "",
            path_ids={"id": issuer_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def update_issuer(
        self,
        issuer_id: str,
        body: IssuerUpdate | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Issuer:
        """Change an issuer. Needs a key with the scope `issuers:update`."""
        answer: Issuer = self._call(
            "PUT",
            "/v1/issuers/{id}",
            "body",
            path_ids={"id": issuer_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def revoke_subject(
        self,
        issuer_id: str,
        body: SubjectRevocation,
        *,
        wait_ms: int | None = None,
        deadline_ms: float | None = None,
    ) -> Revocation:
        """Revoke a subject of another issuer. Needs a key with the scope `passports:revoke`."""
        answer: Revocation = self._call(
            "POST",
            "/v1/issuers/{id}/revoke-subject",
            "body",
            path_ids={"id": issuer_id},
            query={"wait_ms": wait_ms},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def try_token(
        self,
        issuer_id: str,
        body: TokenTrial,
        *,
        deadline_ms: float | None = None,
    ) -> TokenExplanation:
        """Say what a token of another issuer would become. Needs a key with the scope `issuers:read`."""
        answer: TokenExplanation = self._call(
            "POST",
            "/v1/issuers/{id}/try-token",
            "body",
            path_ids={"id": issuer_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_mcp_pins(
        self,
        *,
        gate_id: str | None = None,
        status: Literal["pinned", "changed", "rejected"] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> McpPinPage:
        """List pinned tools of MCP servers, newest first. Needs a key with the scope `gates:read`."""
        answer: McpPinPage = self._call(
            "GET",
            "/v1/mcp-pins",
            "",
            path_ids={},
            query={"gate_id": gate_id, "status": status, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def report_mcp_tools(
        self,
        body: McpToolReport,
        *,
        deadline_ms: float | None = None,
    ) -> McpToolReportResult:
        """Report tools of an MCP server. Needs a key with the scope `enforcement:check`."""
        answer: McpToolReportResult = self._call(
            "POST",
            "/v1/mcp-pins",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_mcp_pin(
        self,
        mcp_pin_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> McpPin:
        """Get a pinned tool, with what has changed. Needs a key with the scope `gates:read`."""
        answer: McpPin = self._call(
            "GET",
            "/v1/mcp-pins/{id}",
            "",
            path_ids={"id": mcp_pin_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def accept_mcp_pin(
        self,
        mcp_pin_id: str,
        body: McpPinResolution,
        *,
        deadline_ms: float | None = None,
    ) -> McpPin:
        """Accept a change of a tool. Needs a key with the scope `gates:update`."""
        answer: McpPin = self._call(
            "POST",
            "/v1/mcp-pins/{id}/accept",
            "body",
            path_ids={"id": mcp_pin_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def reject_mcp_pin(
        self,
        mcp_pin_id: str,
        body: McpPinResolution,
        *,
        deadline_ms: float | None = None,
    ) -> McpPin:
        """Reject a change of a tool. Needs a key with the scope `gates:update`."""
        answer: McpPin = self._call(
            "POST",
            "/v1/mcp-pins/{id}/reject",
            "body",
            path_ids={"id": mcp_pin_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_outcomes(
        self,
        *,
        status: Literal["waiting", "refused"] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> ReportedOutcomePage:
        """List outcomes that sidecars have taken and that were refused, or wait for their PERMITs. Needs
        a key with the scope `attestations:read`.
        """
        answer: ReportedOutcomePage = self._call(
            "GET",
            "/v1/outcomes",
            "",
            path_ids={},
            query={"status": status, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def reactivate_owner(
        self,
        owner: str,
        body: Reactivation | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> PassportOwner:
        """End a suspension of an owner. Needs a key with the scope `passports:revoke`."""
        answer: PassportOwner = self._call(
            "POST",
            "/v1/owners/{owner}/reactivate",
            "body",
            path_ids={"owner": owner},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def suspend_owner(
        self,
        owner: str,
        body: Mapping[str, Any] | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> PassportOwner:
        """Suspend all passports of an owner. Needs a key with the scope `passports:revoke`."""
        answer: PassportOwner = self._call(
            "POST",
            "/v1/owners/{owner}/suspend",
            "body",
            path_ids={"owner": owner},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def issue_passport(
        self,
        body: ReferenceIssue | MachineIssue | UnattendedIssue,
        *,
        idempotency_key: str | None = None,
        deadline_ms: float | None = None,
    ) -> IssuedPassport:
        """Issue a passport. Needs a key with the scope `passports:issue`."""
        answer: IssuedPassport = self._call(
            "POST",
            "/v1/passports",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_passports(
        self,
        *,
        agent_id: str | None = None,
        agent_name: str | None = None,
        issuer_id: str | None = None,
        owner: str | None = None,
        user: str | None = None,
        status: Literal["active", "suspended", "revoked", "expired"] | None = None,
        trust_tier: Literal["L1", "L2", "L3"] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> PassportPage:
        """List passports, newest first. Needs a key with the scope `passports:read`."""
        answer: PassportPage = self._call(
            "GET",
            "/v1/passports",
            "",
            path_ids={},
            query={"agent_id": agent_id, "agent_name": agent_name, "issuer_id": issuer_id, "owner": owner, "user": user, "status": status, "trust_tier": trust_tier, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_passport(
        self,
        passport_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Passport:
        """Get a passport. Needs a key with the scope `passports:read`."""
        answer: Passport = self._call(
            "GET",
            "/v1/passports/{id}",
            "",
            path_ids={"id": passport_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def reactivate_passport(
        self,
        passport_id: str,
        body: Reactivation | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Passport:
        """End a suspension of a passport. Needs a key with the scope `passports:revoke`."""
        answer: Passport = self._call(
            "POST",
            "/v1/passports/{id}/reactivate",
            "body",
            path_ids={"id": passport_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def revoke_passport(
        self,
        passport_id: str,
        body: PassportRevocation | None = None,
        *,
        wait_ms: int | None = None,
        deadline_ms: float | None = None,
    ) -> Revocation:
        """Revoke a passport for ever. Needs a key with the scope `passports:revoke`."""
        answer: Revocation = self._call(
            "POST",
            "/v1/passports/{id}/revoke",
            "body",
            path_ids={"id": passport_id},
            query={"wait_ms": wait_ms},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def suspend_passport(
        self,
        passport_id: str,
        body: Mapping[str, Any] | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Passport:
        """Suspend a passport. Needs a key with the scope `passports:revoke`."""
        answer: Passport = self._call(
            "POST",
            "/v1/passports/{id}/suspend",
            "body",
            path_ids={"id": passport_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def verify_passport(
        self,
        passport_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Verification:
        """Ask whether a passport is valid now. Needs a key with the scope `passports:read`."""
        answer: Verification = self._call(
            "GET",
            "/v1/passports/{id}/verify",
            "",
            path_ids={"id": passport_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def set_passport_wallet(
        self,
        passport_id: str,
        body: PassportWallet,
        *,
        deadline_ms: float | None = None,
    ) -> Passport:
        """Put a passport into a wallet, or out of any. Needs a key with the scope `wallets:manage`."""
        answer: Passport = self._call(
            "POST",
            "/v1/passports/{id}/wallet",
            "body",
            path_ids={"id": passport_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_policy(
        self,
        hash: str,
        *,
        deadline_ms: float | None = None,
    ) -> Policy:
        """Get a policy by its hash. Needs a key with the scope `gates:read`."""
        answer: Policy = self._call(
            "GET",
            "/v1/policies/{hash}",
            "",
            path_ids={"hash": hash},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def show_receipt(
        self,
        body: ReceiptShowing,
        *,
        deadline_ms: float | None = None,
    ) -> ReceiptReport:
        """Show a receipt. Needs a key with the scope `attestations:read`."""
        answer: ReceiptReport = self._call(
            "POST",
            "/v1/receipts",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def revoke_sidecar_key(
        self,
        body: SidecarKeyRevocation,
        *,
        deadline_ms: float | None = None,
    ) -> RevokedSidecarKey:
        """Revoke the key with which a sidecar signs receipts. Needs a live key of the operator with the
        scope `admin:*`.
        """
        answer: RevokedSidecarKey = self._call(
            "POST",
            "/v1/signing-keys/revoke-sidecar-key",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def rotate_signing_key(
        self,
        body: KeyRotationRequest,
        *,
        deadline_ms: float | None = None,
    ) -> KeyRotation:
        """Replace a key with which this service signs. Needs a live key of the operator with the scope
        `admin:*`.
        """
        answer: KeyRotation = self._call(
            "POST",
            "/v1/signing-keys/rotate",
            "body",
            path_ids={},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_template(
        self,
        body: TemplateCreation,
        *,
        idempotency_key: str | None = None,
        if_none_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Template:
        """Create a template. Needs a key with the scope `templates:create`."""
        answer: Template = self._call(
            "POST",
            "/v1/templates",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key, "if-none-match": if_none_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_templates(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> TemplatePage:
        """List templates, own and built-in. Needs a key with the scope `templates:read`."""
        answer: TemplatePage = self._call(
            "GET",
            "/v1/templates",
            "",
            path_ids={},
            query={"name": name, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_template(
        self,
        template_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Template:
        """Get a template. Needs a key with the scope `templates:read`."""
        answer: Template = self._call(
            "GET",
            "/v1/templates/{id}",
            "",
            path_ids={"id": template_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_wallets(
        self,
        *,
        name: str | None = None,
        parent_wallet_id: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> WalletPage:
        """List wallets, newest first. Needs a key with the scope `wallets:read`."""
        answer: WalletPage = self._call(
            "GET",
            "/v1/wallets",
            "",
            path_ids={},
            query={"name": name, "parent_wallet_id": parent_wallet_id, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_wallet(
        self,
        body: WalletCreation,
        *,
        idempotency_key: str | None = None,
        if_none_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Wallet:
        """Create a wallet. Needs a key with the scope `wallets:manage`."""
        answer: Wallet = self._call(
            "POST",
            "/v1/wallets",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key, "if-none-match": if_none_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_wallet(
        self,
        wallet_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> WalletDetail:
        """Get a wallet, with what is left of each limit. Needs a key with the scope `wallets:read`."""
        answer: WalletDetail = self._call(
            "GET",
            "/v1/wallets/{id}",
            "",
            path_ids={"id": wallet_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def update_wallet(
        self,
        wallet_id: str,
        body: WalletPatch | None = None,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> Wallet:
        """Change or move a wallet. Needs a key with the scope `wallets:manage`."""
        answer: Wallet = self._call(
            "PUT",
            "/v1/wallets/{id}",
            "body",
            path_ids={"id": wallet_id},
            query={},
            headers={"if-match": if_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def delete_wallet(
        self,
        wallet_id: str,
        *,
        if_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> WalletDeletion:
        """Delete an empty wallet. Needs a key with the scope `wallets:manage`."""
        answer: WalletDeletion = self._call(
            "DELETE",
            "/v1/wallets/{id}",
            "",
            path_ids={"id": wallet_id},
            query={},
            headers={"if-match": if_match},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def freeze_wallet(
        self,
        wallet_id: str,
        body: Mapping[str, Any] | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Wallet:
        """Block all passports of a wallet and of those below it. Needs a key with the scope
        `wallets:manage`.
        """
        answer: Wallet = self._call(
            "POST",
            "/v1/wallets/{id}/freeze",
            "body",
            path_ids={"id": wallet_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_wallet_statement(
        self,
        wallet_id: str,
        *,
        since: str,
        until: str,
        limit: int | None = None,
        page: str | None = None,
        deadline_ms: float | None = None,
    ) -> WalletStatement:
        """What was spent from a wallet, by passport, gate and permission. Needs a key with the scope
        `wallets:read`.
        """
        answer: WalletStatement = self._call(
            "GET",
            "/v1/wallets/{id}/statement",
            "",
            path_ids={"id": wallet_id},
            query={"since": since, "until": until, "limit": limit, "page": page},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def unfreeze_wallet(
        self,
        wallet_id: str,
        body: Mapping[str, Any] | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Wallet:
        """Let a frozen wallet be used again. Needs a key with the scope `wallets:manage`."""
        answer: Wallet = self._call(
            "POST",
            "/v1/wallets/{id}/unfreeze",
            "body",
            path_ids={"id": wallet_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def create_webhook(
        self,
        body: WebhookCreation,
        *,
        idempotency_key: str | None = None,
        if_none_match: str | None = None,
        deadline_ms: float | None = None,
    ) -> NewWebhook:
        """Subscribe an endpoint to events. Needs a key with the scope `webhooks:manage`."""
        answer: NewWebhook = self._call(
            "POST",
            "/v1/webhooks",
            "body creates",
            path_ids={},
            query={},
            headers={"idempotency-key": idempotency_key, "if-none-match": if_none_match},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_webhooks(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        deadline_ms: float | None = None,
    ) -> WebhookPage:
        """List webhooks, newest first. Needs a key with the scope `webhooks:manage`."""
        answer: WebhookPage = self._call(
            "GET",
            "/v1/webhooks",
            "",
            path_ids={},
            query={"name": name, "limit": limit, "offset": offset, "cursor": cursor},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def get_webhook(
        self,
        webhook_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Webhook:
        """Get a webhook. Needs a key with the scope `webhooks:manage`."""
        answer: Webhook = self._call(
            "GET",
            "/v1/webhooks/{id}",
            "",
            path_ids={"id": webhook_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def update_webhook(
        self,
        webhook_id: str,
        body: WebhookUpdate | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Webhook:
        """Change a webhook. Needs a key with the scope `webhooks:manage`."""
        answer: Webhook = self._call(
            "PUT",
            "/v1/webhooks/{id}",
            "body",
            path_ids={"id": webhook_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def delete_webhook(
        self,
        webhook_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> WebhookDeletion:
        """Delete a webhook. Needs a key with the scope `webhooks:manage`."""
        answer: WebhookDeletion = self._call(
            "DELETE",
            "/v1/webhooks/{id}",
            "",
            path_ids={"id": webhook_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def list_deliveries(
        self,
        webhook_id: str,
        *,
        limit: int | None = None,
        offset: int | None = None,
        cursor: str | None = None,
        status: Literal["pending", "succeeded", "failed"] | None = None,
        deadline_ms: float | None = None,
    ) -> DeliveryPage:
        """List what was sent to a webhook, newest first. Needs a key with the scope `webhooks:manage`."""
        answer: DeliveryPage = self._call(
            "GET",
            "/v1/webhooks/{id}/deliveries",
            "",
            path_ids={"id": webhook_id},
            query={"limit": limit, "offset": offset, "cursor": cursor, "status": status},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def resend_delivery(
        self,
        webhook_id: str,
        delivery_id: str,
        *,
        deadline_ms: float | None = None,
    ) -> Delivery:
        """Send a delivery again. Needs a key with the scope `webhooks:manage`."""
        answer: Delivery = self._call(
            "POST",
            "/v1/webhooks/{id}/deliveries/{delivery_id}/resend",
            "",
            path_ids={"id": webhook_id, "delivery_id": delivery_id},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer

    def recover_webhook(
        self,
        webhook_id: str,
        body: WebhookRecovery,
        *,
        deadline_ms: float | None = None,
    ) -> WebhookRecovered:
        """Send again what has failed since a time. Needs a key with the scope `webhooks:manage`."""
        answer: WebhookRecovered = self._call(
            "POST",
            "/v1/webhooks/{id}/recover",
            "body",
            path_ids={"id": webhook_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def roll_webhook_secret(
        self,
        webhook_id: str,
        body: Roll | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> NewWebhook:
        """Replace the secret of a webhook by a new one. Needs a key with the scope `webhooks:manage`."""
        answer: NewWebhook = self._call(
            "POST",
            "/v1/webhooks/{id}/roll-secret",
            "body",
            path_ids={"id": webhook_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def test_webhook(
        self,
        webhook_id: str,
        body: WebhookTest | None = None,
        *,
        deadline_ms: float | None = None,
    ) -> Delivery:
        """Send an event with sample data to a webhook. Needs a key with the scope `webhooks:manage`."""
        answer: Delivery = self._call(
            "POST",
            "/v1/webhooks/{id}/test",
            "body",
            path_ids={"id": webhook_id},
            query={},
            headers={},
            body=body,
            deadline_ms=deadline_ms,
        )
        return answer

    def who_am_i(
        self,
        *,
        deadline_ms: float | None = None,
    ) -> WhoAmI:
        """Get what the calling key may do. Needs a key, of any scope."""
        answer: WhoAmI = self._call(
            "GET",
            "/v1/whoami",
            "",
            path_ids={},
            query={},
            headers={},
            body=None,
            deadline_ms=deadline_ms,
        )
        return answer
