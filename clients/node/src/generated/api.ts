// Written by scripts/generate-api.ts from docs/openapi.json. Do not edit.

import type { ByteStream, CallOptions, CreateOptions, List } from '../call-options.ts';

export type ReasonName = 'passport_malformed' | 'passport_signature_invalid' | 'passport_not_yet_valid' | 'passport_expired' | 'passport_revoked' | 'passport_suspended' | 'passport_unknown_key' | 'mode_mismatch' | 'trust_level_insufficient' | 'issuer_untrusted' | 'issuer_keys_stale' | 'proof_missing' | 'proof_invalid' | 'proof_replayed' | 'permission_missing' | 'permission_not_granted' | 'permission_not_in_catalog' | 'condition_not_met' | 'condition_error' | 'domain_not_allowed' | 'domain_missing' | 'pii_detected' | 'currency_unsupported' | 'amount_missing' | 'spend_limit_exceeded' | 'rate_limit_exceeded' | 'quota_unavailable' | 'state_stale' | 'approval_required' | 'approval_denied' | 'approval_expired' | 'approval_used' | 'approval_mismatch' | 'approvals_pending_exceeded' | 'wallet_limit_exceeded' | 'wallet_frozen';

export type CheckName = 'passport' | 'trust_level' | 'freshness' | 'issuer' | 'proof_of_possession' | 'permission' | 'conditions' | 'domain_allowlist' | 'pii_controls' | 'spend_limit' | 'rate_limit' | 'approval';

export type ScopeName = 'passports:issue' | 'passports:read' | 'passports:revoke' | 'gates:create' | 'gates:read' | 'gates:update' | 'gates:manage' | 'issuers:create' | 'issuers:read' | 'issuers:update' | 'templates:read' | 'templates:create' | 'osgate:read' | 'osgate:manage';

export type DeliveryFault = 'timeout' | 'unreachable' | 'closed' | 'target_refused' | 'bad_answer' | 'mail_not_configured' | 'tls_missing' | 'tls_failed' | 'login_refused' | 'sender_refused' | 'recipient_refused' | 'message_refused';

export type EventName = 'passport.verified' | 'passport.denied' | 'passport.revoked' | 'gate.created' | 'shadow.ended' | 'spend_limit.approaching' | 'approval.requested' | 'approval.resolved' | 'hold.expired' | 'outcome.refused' | 'mcp_pin.changed' | 'history.regressed';

export interface ErrorBody {
  /** What went wrong. */
  readonly error: {
    /** For programs to branch on; a closed list, see docs/errors.md. */
    readonly code: 'invalid_request' | 'invalid_json' | 'body_too_large' | 'unauthorized' | 'insufficient_scope' | 'account_suspended' | 'not_an_approver' | 'passport_not_found' | 'gate_not_found' | 'shadow_not_found' | 'catalog_not_found' | 'backtest_not_found' | 'policy_not_found' | 'issuer_not_found' | 'template_not_found' | 'attestation_not_found' | 'approval_not_found' | 'hold_not_found' | 'mcp_pin_not_found' | 'wallet_not_found' | 'webhook_not_found' | 'channel_not_found' | 'delivery_not_found' | 'api_key_not_found' | 'account_not_found' | 'route_not_found' | 'agent_id_conflict' | 'passport_state_conflict' | 'approval_already_resolved' | 'mcp_pin_state_conflict' | 'mcp_pins_full' | 'outcome_conflict' | 'amount_exceeds_hold' | 'spend_limit_exceeded' | 'backtest_running' | 'channel_name_conflict' | 'idempotency_conflict' | 'proof_not_ready' | 'precondition_failed' | 'unsupported_media_type' | 'rate_limited' | 'internal_error' | 'overloaded' | 'service_unavailable';
    /** Text for people. */
    readonly message: string;
    /** The HTTP status. */
    readonly status: number;
    /** Names the request; also in `X-Request-Id`. */
    readonly request_id: string;
    /** The field or parameter at fault, if there is one. */
    readonly param?: string;
    /** Where in an expression its fault is. */
    readonly details?: {
      /** From 1. */
      readonly line: number;
      /** From 1, in characters. */
      readonly column: number;
      /** Text for people. */
      readonly message: string;
    };
  };
  /** Of a refused security event: the code of RFC 8935 §2.4. */
  readonly err?: string;
  /** Of a refused security event: the message, for its transmitter. */
  readonly description?: string;
}

export interface ReferenceIssue {
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string;
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /** Id of the issuer, `iss_…`. Default: the account's own default issuer. */
  readonly issuer_id?: string | null;
  /** Name of the agent, for people. Default: the `agent_id`. */
  readonly agent_name?: string | null;
  /** How long the passport is valid, in days. Default 90. */
  readonly expires_in_days?: number | null;
  /** How long it is valid: a number with `s`, `m`, `h` or `d`. */
  readonly expires_in?: string | null;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  /** Free-form, kept and answered as sent. At most 16 KiB of JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | null;
  /**
   * The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
   * passport is also issued with the public JWK of such a key.
   */
  readonly public_key?: string | Readonly<Record<string, unknown>> | null;
  /** Limits of this passport, at every gate. */
  readonly constraints?: PassportConstraints | null;
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner?: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user?: string | null;
  readonly wallet_id?: string | null;
}

export interface MachineIssue {
  readonly issuer_id: string;
  /** Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`. */
  readonly subject: Readonly<Record<string, unknown>>;
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /** Limits of this passport, at every gate. */
  readonly constraints?: PassportConstraints | null;
  /** When it expires; null if it never expires. */
  readonly expires_at?: string | null;
  /**
   * The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
   * passport is also issued with the public JWK of such a key.
   */
  readonly public_key?: string | Readonly<Record<string, unknown>> | null;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner?: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user?: string | null;
  readonly wallet_id?: string | null;
}

export interface UnattendedIssue {
  /** Kind of the agent, in the unattended variant; kept in `subject`. */
  readonly agent_type?: string | null;
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id?: string | null;
  /** Name of the agent, for people. Default: the `agent_id`. */
  readonly agent_name?: string | null;
  /** How long it is valid: a number with `s`, `m`, `h` or `d`. */
  readonly expires_in?: string | null;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner?: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user?: string | null;
  readonly wallet_id?: string | null;
}

export interface Passport {
  readonly passport_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string;
  /** Name of the agent, for people. Default: the `agent_id`. */
  readonly agent_name: string;
  readonly issuer_id: string;
  /** Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`. */
  readonly subject: Readonly<Record<string, unknown>>;
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /** Limits that apply to every decision. */
  readonly constraints: Readonly<Record<string, unknown>>;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier: 'L1' | 'L2' | 'L3';
  /**
   * The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
   * passport is also issued with the public JWK of such a key.
   */
  readonly public_key: string | null;
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user: string | null;
  /** The wallet that pays for the passport; null: none. */
  readonly wallet_id: string | null;
  readonly status: 'active' | 'suspended' | 'revoked' | 'expired';
  /** The suspensions that stand, oldest first; empty: none. */
  readonly suspended_by: readonly Suspension[];
  /** When the passport was issued. */
  readonly issued_at: string;
  readonly created_at: string;
  /** When it expires; null if it never expires. */
  readonly expires_at: string | null;
  /** Free-form, kept and answered as sent. At most 16 KiB of JSON. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Whether the passport is of another issuer: each token of its subject is a token of this passport. */
  readonly federated: boolean;
  /** Domain that the issuer claims. */
  readonly issuer_domain: string | null;
  /** Number of PERMIT decisions for the passport. */
  readonly use_count: number;
  /** When it was last used; null if never. */
  readonly last_used_at: string | null;
  /** When the passport was revoked; null if it is not revoked. */
  readonly revoked_at: string | null;
  /** Why the passport was revoked. */
  readonly revocation_reason: string | null;
  /**
   * Who revoked the passport, as in its audit entry; null if it is not revoked, or was revoked before the
   * service recorded this.
   */
  readonly revoked_by: Actor | null;
}

export interface IssuedPassport {
  readonly passport_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string;
  /** Name of the agent, for people. Default: the `agent_id`. */
  readonly agent_name: string;
  readonly issuer_id: string;
  /** Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`. */
  readonly subject: Readonly<Record<string, unknown>>;
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /** Limits that apply to every decision. */
  readonly constraints: Readonly<Record<string, unknown>>;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier: 'L1' | 'L2' | 'L3';
  /**
   * The agent's own public key: `ed25519:` and base64url of 32 bytes, or `p256:` and base64url of 65. A
   * passport is also issued with the public JWK of such a key.
   */
  readonly public_key: string;
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user: string | null;
  readonly wallet_id: string | null;
  readonly status: 'active' | 'suspended' | 'revoked' | 'expired';
  /** The suspensions that stand, oldest first; empty: none. */
  readonly suspended_by: readonly Suspension[];
  /** When the passport was issued. */
  readonly issued_at: string;
  readonly created_at: string;
  /** When it expires; null if it never expires. */
  readonly expires_at: string | null;
  /** Free-form, kept and answered as sent. At most 16 KiB of JSON. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /**
   * The passport itself: a signed token (JWS), which the agent presents. A bearer credential, returned
   * only in this answer.
   */
  readonly jwt: string;
  /**
   * The other half: `ed25519_private:` and base64url of the seed. Returned only in this answer and stored
   * nowhere; absent if the caller sent a public key.
   */
  readonly private_key?: string;
}

export interface PassportListItem {
  readonly passport_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string;
  /** Name of the agent, for people. Default: the `agent_id`. */
  readonly agent_name: string;
  readonly issuer_id: string;
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier: 'L1' | 'L2' | 'L3';
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user: string | null;
  /** Whether the passport is of another issuer: each token of its subject is a token of this passport. */
  readonly federated: boolean;
  readonly wallet_id: string | null;
  readonly status: 'active' | 'suspended' | 'revoked' | 'expired';
  /** The suspensions that stand, oldest first; empty: none. */
  readonly suspended_by: readonly Suspension[];
  /** When the passport was issued. */
  readonly issued_at: string;
  readonly created_at: string;
  /** When it expires; null if it never expires. */
  readonly expires_at: string | null;
}

export interface PassportPage {
  /** The objects of this page, newest first. */
  readonly items: readonly PassportListItem[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface PassportRevocation {
  /** Reason, kept for the record. Default `unspecified`. */
  readonly reason?: string | null;
}

export interface Revocation {
  readonly passport_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  readonly status: 'revoked';
  /** When the passport was revoked; null if it is not revoked. */
  readonly revoked_at: string;
  /**
   * Who revoked the passport, as in its audit entry; null if it is not revoked, or was revoked before the
   * service recorded this.
   */
  readonly revoked_by: Actor | null;
  /** Reason, kept for the record. */
  readonly reason: string;
  /** How many of the sidecars that serve passports of this account have applied this change. */
  readonly propagation: {
    /** Revision number of this change. */
    readonly revision: number;
    /** How many sidecars are connected. */
    readonly sidecars: number;
    /** How many of them have applied this change. */
    readonly acknowledged: number;
    /**
     * Sidecars that were connected in the last minutes and are not now. They keep deciding on their last
     * known state, for as long as the trust level of the gate allows.
     */
    readonly silent: readonly string[];
  };
}

export interface Verification {
  /** Whether the passport is valid now. */
  readonly valid: boolean;
  readonly passport_id: string;
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier: 'L1' | 'L2' | 'L3';
  readonly status: 'active' | 'suspended' | 'revoked' | 'expired';
  /** When it expires; null if it never expires. */
  readonly expires_at: string | null;
  /** Whether the passport has expired. */
  readonly is_expired: boolean;
  /** The same as `is_expired`. */
  readonly expired: boolean;
  /** Whether the passport is revoked. */
  readonly is_revoked: boolean;
  /** The same as `is_revoked`. */
  readonly revoked: boolean;
  /** Most severe reason why the passport is invalid; null if it is valid. */
  readonly reason: 'revoked' | 'expired' | 'suspended' | 'owner_suspended' | 'issuer_suspended' | 'key_compromised' | null;
  /** When the passport was revoked; null if it is not revoked. */
  readonly revoked_at: string | null;
  /** Why the passport was revoked. */
  readonly revocation_reason: string | null;
}

export interface PassportConstraints {
  /** Requests per UTC calendar window. */
  readonly rate_limits?: {
    /** Requests in a UTC minute. */
    readonly requests_per_minute?: number | null;
    /** Requests in a UTC hour. */
    readonly requests_per_hour?: number | null;
    /** Requests in a UTC day. */
    readonly requests_per_day?: number | null;
  } | null;
  /** Money, in USD with at most 6 decimals. */
  readonly spend_limits?: {
    /** The most that one request may spend. */
    readonly per_transaction_usd?: number | null;
    /** The most that may be spent in a UTC day. */
    readonly daily_usd?: number | null;
    /** The most that may be spent in a UTC month. */
    readonly monthly_usd?: number | null;
    /**
     * What a request without an amount and without a catalog price gets where a spend limit or
     * `approvals.above_usd` applies: `block` (default) is BLOCK `amount_missing`, `permit` counts it as
     * 0.
     */
    readonly unpriced?: 'block' | 'permit' | null;
  } | null;
  /** Domains that a request may target: `api.example.com` or `*.example.com`. */
  readonly allowed_domains?: readonly string[] | null;
  /** Which requests a person must approve first. */
  readonly approvals?: {
    /** Requests that spend more than this. */
    readonly above_usd?: number | null;
    /** Requests for these permissions. */
    readonly permissions?: readonly string[] | null;
    /** How long an approval stays pending, or an amount is held, in seconds. Default 3600. */
    readonly expires_in_s?: number | null;
  } | null;
  /**
   * Whether the agent must sign each request with the key of its passport, and how far a signature counts
   * once. `required` is once per sidecar.
   */
  readonly proof_of_possession?: 'off' | 'required' | RequiredProof | null;
  /**
   * What requests must meet besides, in the order in which it is asked: expressions of CEL, see
   * docs/conditions.md. At most 32.
   */
  readonly conditions?: readonly Condition[] | null;
}

export interface GateConstraints {
  /** Requests per UTC calendar window. */
  readonly rate_limits?: {
    /** Requests in a UTC minute. */
    readonly requests_per_minute?: number | null;
    /** Requests in a UTC hour. */
    readonly requests_per_hour?: number | null;
    /** Requests in a UTC day. */
    readonly requests_per_day?: number | null;
    /** Whether all passports share the limit (`gate`, the default) or each has its own (`passport`). */
    readonly per?: 'gate' | 'passport' | 'user' | null;
  } | null;
  /** Money, in USD with at most 6 decimals. */
  readonly spend_limits?: {
    /** The most that one request may spend. */
    readonly per_transaction_usd?: number | null;
    /** The most that may be spent in a UTC day. */
    readonly daily_usd?: number | null;
    /** The most that may be spent in a UTC month. */
    readonly monthly_usd?: number | null;
    /**
     * What a request without an amount and without a catalog price gets where a spend limit or
     * `approvals.above_usd` applies: `block` (default) is BLOCK `amount_missing`, `permit` counts it as
     * 0.
     */
    readonly unpriced?: 'block' | 'permit' | null;
    /** Whether all passports share the limit (`gate`, the default) or each has its own (`passport`). */
    readonly per?: 'gate' | 'passport' | 'user' | null;
    /** The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8. */
    readonly alert_at?: number | null;
  } | null;
  /** Domains that a request may target: `api.example.com` or `*.example.com`. */
  readonly allowed_domains?: readonly string[] | null;
  /** What happens to personal data in requests. */
  readonly pii_controls?: {
    /** `log_only` permits and records the findings, `redact` removes the data, `block` blocks. */
    readonly mode: 'log_only' | 'redact' | 'block';
    /** Kinds of personal data that are looked for. Absent: all. */
    readonly types?: readonly ('email' | 'phone' | 'payment_card' | 'iban' | 'us_ssn' | 'ip_address')[] | null;
  } | null;
  /** Which requests a person must approve first. */
  readonly approvals?: {
    /** Requests that spend more than this. */
    readonly above_usd?: number | null;
    /** Requests for these permissions. */
    readonly permissions?: readonly string[] | null;
    /** How long an approval stays pending, or an amount is held, in seconds. Default 3600. */
    readonly expires_in_s?: number | null;
    /** Who may answer the approvals of the gate. Absent: one person or API key with `approvals:resolve`. */
    readonly approvers?: {
      /** People with one of these roles. With neither roles nor users: all people who may answer. */
      readonly roles?: readonly ('owner' | 'admin' | 'approver')[] | null;
      /** These people, by `user_id`. */
      readonly users?: readonly string[] | null;
      /** How many different people have to approve. Default 1. */
      readonly count?: number | null;
      /**
       * Whether the person who made the passport, or the key that asks, is kept from answering. Default
       * true.
       */
      readonly not_requester?: boolean | null;
      /** Whether the person does not answer whose email address or `user_id` is the owner of the passport. */
      readonly not_owner?: boolean | null;
      /**
       * Whether people who could have opened the links of each other count as one, for `count` and
       * `not_requester`. Default false.
       */
      readonly independent?: boolean | null;
    } | null;
    /** Whether each answer is signed with a passkey. Default false. */
    readonly passkey?: boolean | null;
  } | null;
  /**
   * Ids of issuers that the gate trusts, and `own` for the issuers of the gate's own account; or `*`
   * alone for all issuers. Absent: the own issuers.
   */
  readonly trusted_issuers?: readonly string[] | null;
  /**
   * Whether the agent must sign each request with the key of its passport, and how far a signature counts
   * once. `required` is once per sidecar.
   */
  readonly proof_of_possession?: 'off' | 'required' | RequiredProof | null;
  /** How amounts are held that are settled later. */
  readonly holds?: {
    /** How long an approval stays pending, or an amount is held, in seconds. Default 3600. */
    readonly expires_in_s?: number | null;
    /** What becomes of a hold without an outcome: `settle` counts it as spent, `release` gives it back. */
    readonly on_expiry?: 'settle' | 'release' | null;
    /** A settlement above the hold: `refuse`, or `charge` the difference where limits have room. */
    readonly overrun?: 'refuse' | 'charge' | null;
  } | null;
  /**
   * What requests must meet besides, in the order in which it is asked: expressions of CEL, see
   * docs/conditions.md. At most 32.
   */
  readonly conditions?: readonly Condition[] | null;
}

export interface RequiredProof {
  /** Always `required`. */
  readonly mode: 'required';
  /**
   * Where a proof counts once: at each `sidecar` (default), or `exact`: over all sidecars and control
   * planes, for one call more.
   */
  readonly replay?: 'sidecar' | 'exact' | null;
}

export interface Condition {
  /** Its name in answers and records: 1 to 64 of `a-z0-9-`, unique in the list. */
  readonly id: string;
  /** An expression of CEL that has to be true. At most 4 KiB. */
  readonly require: string;
  /** Of which requests it is asked: permissions, or `<area>:*` for an area. Default: all. */
  readonly permissions?: readonly string[] | null;
  /** What becomes of a request that does not meet it: `block` (default), or `approve`: a person is asked. */
  readonly otherwise?: 'block' | 'approve' | null;
  /** The `detail` of answers in which it is not met. At most 200 characters. */
  readonly message?: string | null;
}

export interface ConditionCheckRequest {
  /** An expression of CEL that has to be true. At most 4 KiB. */
  readonly require: string;
  /** Of which requests it would be asked. Default: all. */
  readonly permissions?: readonly string[] | null;
  /** The gate that it is for, whose catalog and pinned tools are looked at. */
  readonly gate_id?: string | null;
}

export interface ConditionCheck {
  /** JSON pointers to what it reads: `/request/…`, `/passport/…`, `/claims/…` or `/user`. */
  readonly reads: readonly string[];
  /** What no pinned tool of the gate takes, and permissions that its catalog lacks. */
  readonly warnings: readonly {
    /** Of which permission it is said; null: of all. */
    readonly permission: string | null;
    /** Which of `reads` it is about; null: the permission. */
    readonly path: string | null;
    /** Text for people. */
    readonly message: string;
  }[];
}

export interface GateRoute {
  /** Methods in capitals, such as `GET`. Default: every method. */
  readonly methods?: readonly string[] | null;
  /**
   * Path below the gate: `/orders`, `/orders/:id` (one segment), `/files/*` (the rest). Compared with the
   * decoded path.
   */
  readonly path: string;
  /** The permission that such a request needs. */
  readonly permission_key: string;
  /** What such a request spends, in USD. Default: it has no amount. */
  readonly amount_usd?: number | null;
}

export interface GateCreation {
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description?: string | null;
  /** Minimum trust tier of a passport. */
  readonly trust_level?: 'L1' | 'L2' | 'L3' | null;
  /** The same as `trust_level`. */
  readonly trust_profile?: 'L1' | 'L2' | 'L3' | null;
  /** Limits that apply to every decision. */
  readonly constraints?: Readonly<Record<string, unknown>> | null;
  /**
   * Which permission a request to `gate_url` needs, by its method and path. The first route that fits
   * counts. At most 256.
   */
  readonly routes?: readonly GateRoute[] | null;
  /** Id of the template, `tmpl_…`, or the name of a built-in one. */
  readonly template_id?: string | null;
  /** What the gate offers, and at what price. */
  readonly catalog?: CatalogPublication | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>> | null;
}

export interface NewGate {
  readonly gate_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /** URL of the gate itself, for proxies. */
  readonly gate_url: string;
  readonly status: 'active';
  readonly created_at: string;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Who made the last change of the gate or its catalog, as in its audit entry; null if it was made
   * before the service recorded this.
   */
  readonly last_changed_by: Actor | null;
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
  /** The same as `trust_level`. */
  readonly trust_profile: 'L1' | 'L2' | 'L3';
  /** Limits that apply to every decision. */
  readonly constraints: GateConstraints;
  /**
   * Which permission a request to `gate_url` needs, by its method and path. The first route that fits
   * counts. At most 256; absent: none.
   */
  readonly routes?: readonly GateRoute[];
  /** What the gate offers, and at what price. */
  readonly catalog?: Catalog;
}

export interface GatePatch {
  /** Name, for people. */
  readonly name?: string | null;
  /** Text for people. */
  readonly description?: string | null;
  /** Minimum trust tier of a passport. */
  readonly trust_level?: 'L1' | 'L2' | 'L3' | null;
  /** The same as `trust_level`. */
  readonly trust_profile?: 'L1' | 'L2' | 'L3' | null;
  /** Limits that apply to every decision. */
  readonly constraints?: Readonly<Record<string, unknown>> | null;
  /** Replaces all routes; null or an empty array removes them. */
  readonly routes?: readonly GateRoute[] | null;
  /** Merged into the labels; null removes one, or all. */
  readonly labels?: Readonly<Record<string, unknown>> | null;
  readonly gate_id?: string | null;
  /** The id of this object under its short name. */
  readonly id?: string | null;
  /** URL of the gate itself, for proxies. */
  readonly gate_url?: string | null;
  readonly status?: 'active';
  readonly created_at?: string | null;
  /** When it was last changed. */
  readonly updated_at?: string | null;
  /**
   * Who made the last change of the gate or its catalog, as in its audit entry; null if it was made
   * before the service recorded this.
   */
  readonly last_changed_by?: Actor | null;
  /** Counts of all decisions at the gate, without gate tests. */
  readonly stats?: {
    /** Decisions at the gate. */
    readonly total_requests: number;
    /** Of these, PERMIT. */
    readonly permits: number;
    /** Of these, BLOCK. */
    readonly blocks: number;
    /** When the gate last decided; null if never. */
    readonly last_request_at: string | null;
  } | null;
  /** The newest promotion of a shadow; absent: none. */
  readonly promoted?: Promotion | null;
}

export interface Gate {
  readonly gate_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /** URL of the gate itself, for proxies. */
  readonly gate_url: string;
  readonly status: 'active';
  readonly created_at: string;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Who made the last change of the gate or its catalog, as in its audit entry; null if it was made
   * before the service recorded this.
   */
  readonly last_changed_by: Actor | null;
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
  /** The same as `trust_level`. */
  readonly trust_profile: 'L1' | 'L2' | 'L3';
  /** Limits that apply to every decision. */
  readonly constraints: GateConstraints;
  /**
   * Which permission a request to `gate_url` needs, by its method and path. The first route that fits
   * counts. At most 256; absent: none.
   */
  readonly routes?: readonly GateRoute[];
}

export interface GateWithStats {
  readonly gate_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /** URL of the gate itself, for proxies. */
  readonly gate_url: string;
  readonly status: 'active';
  readonly created_at: string;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Who made the last change of the gate or its catalog, as in its audit entry; null if it was made
   * before the service recorded this.
   */
  readonly last_changed_by: Actor | null;
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
  /** The same as `trust_level`. */
  readonly trust_profile: 'L1' | 'L2' | 'L3';
  /** Limits that apply to every decision. */
  readonly constraints: GateConstraints;
  /**
   * Which permission a request to `gate_url` needs, by its method and path. The first route that fits
   * counts. At most 256; absent: none.
   */
  readonly routes?: readonly GateRoute[];
  /** Counts of all decisions at the gate, without gate tests. */
  readonly stats: {
    /** Decisions at the gate. */
    readonly total_requests: number;
    /** Of these, PERMIT. */
    readonly permits: number;
    /** Of these, BLOCK. */
    readonly blocks: number;
    /** When the gate last decided; null if never. */
    readonly last_request_at: string | null;
  };
  /** The newest promotion of a shadow; absent: none. */
  readonly promoted?: Promotion;
}

export interface GateListItem {
  readonly gate_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /** URL of the gate itself, for proxies. */
  readonly gate_url: string;
  readonly status: 'active';
  readonly created_at: string;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Who made the last change of the gate or its catalog, as in its audit entry; null if it was made
   * before the service recorded this.
   */
  readonly last_changed_by: Actor | null;
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
  /** The same as `trust_level`. */
  readonly trust_profile: 'L1' | 'L2' | 'L3';
  /** Decisions at the gate. */
  readonly request_count: number;
  /** Of these, PERMIT. */
  readonly permit_count: number;
  /** Of these, BLOCK. */
  readonly block_count: number;
  /** Who answers its approvals; null: the gate names no approvers. */
  readonly approvers: {
    /** How many different people have to approve. */
    readonly count: number;
    /**
     * Whether people who could have opened the links of each other count as one, for `count` and
     * `not_requester`. Default false.
     */
    readonly independent: boolean;
    /** How many different people could answer now. */
    readonly able: number;
  } | null;
}

export interface GatePage {
  /** The objects of this page, newest first. */
  readonly items: readonly GateListItem[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface GateDeletion {
  readonly gate_id: string;
  /** The id of this object under its short name. */
  readonly id: string;
  /** Whether it is deleted. */
  readonly deleted: true;
  /** When it was deleted. */
  readonly deleted_at: string;
}

export interface ShadowPatch {
  /** Minimum trust tier of a passport. */
  readonly trust_level?: 'L1' | 'L2' | 'L3' | null;
  /** Merged into the live constraints; null removes one, or all. */
  readonly constraints?: Readonly<Record<string, unknown>> | null;
  /** Replaces all routes; null or an empty array removes them. */
  readonly routes?: readonly GateRoute[] | null;
  /** How long it is tried, in seconds; at most 2592000. */
  readonly expires_in_s?: number | null;
}

export interface Shadow {
  readonly gate_id: string;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
  /** Limits that apply to every decision. */
  readonly constraints: GateConstraints;
  /**
   * Which permission a request to `gate_url` needs, by its method and path. The first route that fits
   * counts. At most 256; absent: none.
   */
  readonly routes?: readonly GateRoute[];
  /** Hash of the policy, which `shadow` of records names. */
  readonly policy_hash: string;
  /** Hash of the live policy that it was made of. */
  readonly base_policy_hash: string;
  readonly created_at: string;
  /** When it ends, unless something ends it before. */
  readonly expires_at: string;
}

export interface ShadowDeletion {
  readonly gate_id: string;
  /** Whether it is deleted. */
  readonly deleted: true;
}

export interface Promotion {
  /** When the shadow became the policy. */
  readonly at: string;
  /** Hash of the policy that the shadow became. */
  readonly policy_hash: string;
  /** How long both were counted, in seconds. */
  readonly compared_s: number;
  /** What the shadow said in so long a time before; null: nothing to compare. */
  readonly predicted: OutcomeCounts | null;
  /** What the gate has decided since; null: nothing to compare. */
  readonly observed: OutcomeCounts | null;
}

export interface OutcomeCounts {
  /** Of these, PERMIT. */
  readonly permits: number;
  /** Of these, BLOCK. */
  readonly blocks: number;
  /** Requests for which a person was asked. */
  readonly suspends: number;
}

export interface BacktestRequest {
  /** Merged into the live constraints; null removes one, or all. */
  readonly constraints?: Readonly<Record<string, unknown>> | null;
  /** Minimum trust tier of a passport. */
  readonly trust_level?: 'L1' | 'L2' | 'L3' | null;
  /** Replaces all routes; null or an empty array removes them. */
  readonly routes?: readonly GateRoute[] | null;
  /** Records not older than this. Default: 30 days before `until`. */
  readonly since?: string | null;
  /** Records older than this. Default: now. */
  readonly until?: string | null;
}

export interface Backtest {
  readonly backtest_id: string;
  readonly gate_id: string;
  /** Whether it runs, and how it ended. */
  readonly status: 'running' | 'done' | 'failed' | 'cancelled';
  /** How far it is, from 0 to 1. */
  readonly progress: number;
  /** Why it failed; else null. */
  readonly reason: 'control_plane_stopped' | 'control_plane_lost' | 'too_many_approvals' | 'too_many_counters' | 'too_long' | 'database_unavailable' | 'internal_error' | null;
  /** Records not older than this. */
  readonly since: string;
  /** Records older than this. */
  readonly until: string;
  readonly created_at: string;
  /** Null while it runs. */
  readonly ended_at: string | null;
  /** What the policy would have decided otherwise; null until it is done. */
  readonly report: Difference | null;
}

export interface Difference {
  /** Decisions of the time. */
  readonly decisions: number;
  /** Those that would have been answered alike. */
  readonly same: number;
  /** Those that would not. */
  readonly different: readonly DifferentDecisions[];
  /** Those that differ, by agent. */
  readonly by_agent: {
    /** At most 100, those with the most first. */
    readonly named: readonly {
      /**
       * The caller's own identifier for the agent. Unique among the passports of an account and mode that
       * are active or suspended.
       */
      readonly agent_id: string | null;
      /** How many decisions. */
      readonly count: number;
      /** Of those whose requests named an amount, together. */
      readonly amount_usd: number;
    }[];
    /** All that are not named, together. */
    readonly others: {
      /** How many decisions. */
      readonly count: number;
      /** Of those whose requests named an amount, together. */
      readonly amount_usd: number;
    };
  };
  /** Those that differ, by permission. */
  readonly by_permission: {
    /** At most 100, those with the most first. */
    readonly named: readonly {
      /** The permission requested or offered: `<area>:<action>`. */
      readonly permission_key: string | null;
      /** How many decisions. */
      readonly count: number;
      /** Of those whose requests named an amount, together. */
      readonly amount_usd: number;
    }[];
    /** All that are not named, together. */
    readonly others: {
      /** How many decisions. */
      readonly count: number;
      /** Of those whose requests named an amount, together. */
      readonly amount_usd: number;
    };
  };
  /** Steps of the time, those without a decision left out. */
  readonly over_time: {
    /** Length of a step, in seconds. */
    readonly step_s: number;
    /** What was looked at, in order, up to the first fault. */
    readonly steps: readonly {
      /** When the step begins. */
      readonly at: string;
      /** Decisions of the time. */
      readonly decisions: number;
      /** Those that would not. */
      readonly different: number;
      /** Those that the policy alone would have blocked. */
      readonly blocked: number;
    }[];
  };
  /** Ids of the newest 100 records that differ, newest first. */
  readonly examples: readonly string[];
  /** Those of which records do not say it, by cause. */
  readonly undecided: readonly {
    /** Why (docs/backtest.md). */
    readonly cause: string;
    /** How many decisions. */
    readonly count: number;
  }[];
  /** Beginning of the time. */
  readonly from: string;
  /** End of the time. */
  readonly until: string;
}

export interface DifferentDecisions {
  /** What was answered. */
  readonly from: 'PERMIT' | 'SUSPEND' | 'BLOCK';
  /** What the policy would have answered. */
  readonly to: 'PERMIT' | 'SUSPEND' | 'BLOCK';
  /** Of the answer that is no PERMIT; of two the new one. */
  readonly reason: ReasonName | null;
  /** Id of the condition that decided, of the gate or the passport; absent or null: none did. */
  readonly condition: string | null;
  /** How many decisions. */
  readonly count: number;
  /** Of those whose requests named an amount, together. */
  readonly amount_usd: number;
}

export interface GatePolicy {
  /** Version of the gate at which this policy came into force. */
  readonly policy_version: number;
  /** Hash of the policy that decided; null without a gate, or if the policy is not on record. */
  readonly policy_hash: string;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
  /** When it came into force. */
  readonly since: string;
}

export interface GatePolicyPage {
  /** The objects of this page, newest first. */
  readonly items: readonly GatePolicy[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface PolicyBody {
  /** `content_hash` of the newest catalog; null: none was published. */
  readonly catalog_hash: string | null;
  /** Version of the newest catalog; null: none was published. */
  readonly catalog_version: number | null;
  /** Limits that apply to every decision. */
  readonly constraints: GateConstraints;
  /** Routes of the gate; empty: none. */
  readonly routes: readonly GateRoute[];
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3';
}

export interface Policy {
  /** What is hashed: trust level, constraints, routes, and version and hash of the catalog. */
  readonly body: PolicyBody;
  /** Hash of the policy that decided; null without a gate, or if the policy is not on record. */
  readonly policy_hash: string;
  /** base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly. */
  readonly signature: string;
  /** `kid` of the key that signed, in the JWKS. */
  readonly signing_key_id: string;
  /** When a gate had this policy first. */
  readonly first_used_at: string;
}

export interface CatalogPublication {
  /** What the gate offers. An empty list offers nothing. */
  readonly permissions: readonly {
    /** The permission that is offered: `<area>:<action>`. */
    readonly key: string;
    /** Name of the permission, for people. */
    readonly display_name?: string | null;
    /** Text for people. */
    readonly description?: string | null;
    /** What it costs; null if it has no price. */
    readonly pricing?: {
      /** The unit of the price: a call, a minute, or a subscription. */
      readonly model: 'per_call' | 'per_minute' | 'subscription';
      /** The price in hundredths of the currency. */
      readonly price_cents: number;
      /** Currency of the price, such as USD. */
      readonly currency?: string | null;
      readonly [name: string]: unknown;
    } | {
      /** The unit of the price: a call, a minute, or a subscription. */
      readonly model: 'free';
      /** The price in hundredths of the currency. */
      readonly price_cents?: number | null;
      /** Currency of the price, such as USD. */
      readonly currency?: string | null;
      readonly [name: string]: unknown;
    } | Readonly<Record<string, unknown>> | null;
    /** Group of offers, such as `logistics`. */
    readonly category?: string | null;
    /** Risk as rated by the publisher. */
    readonly risk_level?: string | null;
    /** Service level that the publisher promises; null if none. */
    readonly sla?: {
      /** Uptime; 10000 is 100 %. */
      readonly uptime_basis_points: number;
      /** Response time in milliseconds. */
      readonly response_time_ms: number;
    } | null;
    /** The platform's share; null if none. */
    readonly platform_fee?: {
      /** Hundredths of a percent. */
      readonly basis_points: number;
    } | null;
    /** Whether a person must approve each request for it. */
    readonly requires_approval?: boolean | null;
  }[];
  readonly [name: string]: unknown;
}

export interface Catalog {
  readonly gate_id: string;
  /** Version of the catalog, from 1. */
  readonly version: number;
  /** What the gate offers, in the order of the publisher. */
  readonly permissions: readonly {
    /** The permission that is offered: `<area>:<action>`. */
    readonly key: string;
    /** Name of the permission, for people. */
    readonly display_name: string | null;
    /** Text for people. */
    readonly description: string | null;
    /** What it costs; null if it has no price. */
    readonly pricing: {
      /** The unit of the price: a call, a minute, or a subscription. */
      readonly model: 'per_call' | 'per_minute' | 'subscription';
      /** The price in hundredths of the currency. */
      readonly price_cents: number;
      /** Currency of the price, such as USD. */
      readonly currency: string;
      readonly [name: string]: unknown;
    } | Readonly<Record<string, unknown>> | null;
    /** Group of offers, such as `logistics`. */
    readonly category: string | null;
    /** Risk as rated by the publisher. */
    readonly risk_level: string | null;
    /** Service level that the publisher promises; null if none. */
    readonly sla: {
      /** Uptime; 10000 is 100 %. */
      readonly uptime_basis_points: number;
      /** Response time in milliseconds. */
      readonly response_time_ms: number;
    } | null;
    /** The platform's share; null if none. */
    readonly platform_fee: {
      /** Hundredths of a percent. */
      readonly basis_points: number;
    } | null;
    /** Whether a person must approve each request for it. */
    readonly requires_approval: boolean;
  }[];
  /** When this version was published. */
  readonly published_at: string;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the catalog without hash and signature. */
  readonly content_hash: string;
  /** base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly. */
  readonly signature: string;
  /** `kid` of the key that signed, in the JWKS. */
  readonly signing_key_id: string;
  readonly [name: string]: unknown;
}

export interface Discovery {
  /** What was found, in the requested order. */
  readonly results: readonly {
    readonly gate_id: string;
    /** Name of the gate. */
    readonly gate_name: string;
    /** The permission requested or offered: `<area>:<action>`. */
    readonly permission_key: string;
    /** Name of the permission, for people. */
    readonly display_name: string | null;
    /** Text for people. */
    readonly description: string | null;
    /** Group of offers, such as `logistics`. */
    readonly category: string | null;
    /** Risk as rated by the publisher. */
    readonly risk_level: string | null;
    /** The `trust_level` of the gate. */
    readonly security_profile: 'L1' | 'L2' | 'L3';
    /** What it costs; null if it has no price. */
    readonly pricing: {
      /** The unit of the price: a call, a minute, or a subscription. */
      readonly model: 'per_call' | 'per_minute' | 'subscription';
      /** The price in hundredths of the currency. */
      readonly price_cents: number;
      /** Currency of the price, such as USD. */
      readonly currency: string;
    } | null;
    /** Service level that the publisher promises; null if none. */
    readonly sla: {
      /** Uptime; 10000 is 100 %. */
      readonly uptime_basis_points: number;
      /** Response time in milliseconds. */
      readonly response_time_ms: number;
    } | null;
    /** The platform's share; null if none. */
    readonly platform_fee: {
      /** Hundredths of a percent. */
      readonly basis_points: number;
    } | null;
    /** Version of the catalog that contains the offer. */
    readonly catalog_version: number;
    /** `content_hash` of that catalog. */
    readonly catalog_content_hash: string;
    /** `signature` of that catalog. */
    readonly catalog_signature: string;
    /** `kid` of the key that signed, in the JWKS. */
    readonly signing_key_id: string;
  }[];
  readonly total: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
  /** The query, with defaults filled in. */
  readonly query: Readonly<Record<string, unknown>>;
}

export interface DecisionRequest {
  /** The requested permission: `<area>:<action>`. Required at a gate. */
  readonly permission_key?: string | null;
  /** The same as `permission_key`. */
  readonly requested_action?: string | null;
  /** The same as `permission_key`. */
  readonly action?: string | null;
  /** What the request would spend, in USD with at most 6 decimals. */
  readonly amount?: number | null;
  /** The same as `amount`. */
  readonly amount_usd?: number | null;
  /** The same as `amount`. */
  readonly estimated_cost_usd?: number | null;
  /** Currency of the amount. Only USD is supported; anything else is BLOCK `currency_unsupported`. */
  readonly currency?: string | null;
  /** Host that the request targets; checked against `allowed_domains`. */
  readonly domain?: string | null;
  /** Absolute http or https URL that every reader reads alike; its host counts as `domain`. */
  readonly url?: string | null;
  /**
   * A request that is sent several times with the same key is charged once; a repeat gets the first
   * PERMIT again.
   */
  readonly idempotency_key?: string | null;
  /** The approved approval of an earlier SUSPEND of the same request. */
  readonly approval_id?: string | null;
  /**
   * The gate that `/enforce` decides for; absent: the passport alone is checked. Elsewhere it must be the
   * gate in the URL.
   */
  readonly gate_id?: string | null;
  /**
   * Proof that the agent holds the key of its passport: `{ dpop, method, url, nonce? }` or `{ method,
   * url, headers, content_digest? }`. Not part of the request hash.
   */
  readonly proof?: unknown;
  /** Hold the amount, to be settled by an outcome: `true`, or how long. */
  readonly hold?: HoldAsk | null;
  /**
   * What is asked, for the person who answers: at most 2 KiB of JSON and 64 lines. Part of the request
   * and its hash.
   */
  readonly display?: {
    /** What is asked, in one line. */
    readonly title: string;
    /** Details, in the order to show them. */
    readonly lines: readonly {
      /** What the value is. */
      readonly label: string;
      /** The value. */
      readonly value: string;
    }[];
    /** Absolute http or https URL that every reader reads alike; its host counts as `domain`. */
    readonly url?: string | null;
  } | null;
  /** True: the answer of a sidecar carries a receipt (docs/receipts.md). */
  readonly receipt?: boolean | null;
  readonly [name: string]: unknown;
}

export interface GateTestRequest {
  /** The token that the agent presented. */
  readonly passport_token: string;
  /** The requested permission. */
  readonly requested_action?: string | null;
  /** Other members of the `request` of a check, such as `domain` and `estimated_cost_usd`. */
  readonly context?: DecisionRequest | null;
}

export interface GateTest {
  /** What was decided. */
  readonly decision: 'allow' | 'block' | 'suspend';
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string | null;
  readonly gate_id: string;
  /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
  readonly attestation_id: string | null;
  /** When it was decided. */
  readonly timestamp: string;
  /** The checks made, in order. The last one determined the decision. */
  readonly guardrails_evaluated: readonly CheckName[];
  /** Whether the decision is PERMIT. */
  readonly all_passed: boolean;
  /** Reason code; null for a PERMIT. */
  readonly reason: ReasonName | null;
  /** The reason as a sentence. */
  readonly detail?: string;
  /** Whether and when to retry. */
  readonly retry?: {
    /** Whether the same request can succeed later. */
    readonly retryable: boolean;
    /** In how many milliseconds; null if unknown. */
    readonly after_ms: number | null;
  };
  /** The limit that the request would exceed, in its unit. */
  readonly limit?: number;
  /** How much of the limit was used already. */
  readonly used?: number;
  /** How much more was requested. */
  readonly requested?: number;
  /** When the window of the limit ends; null if it has no window. */
  readonly reset_at?: string | null;
  readonly wallet_id?: string;
  /** Id of the condition that decided, of the gate or the passport; absent or null: none did. */
  readonly condition?: string;
  /** Where personal data was found, never the data itself. */
  readonly pii?: readonly PiiFinding[];
  /** With a PERMIT of a gate that redacts: the request without the personal data in it. Pass this on. */
  readonly request_redacted?: Readonly<Record<string, unknown>>;
  /** What was replaced in `request_redacted`. */
  readonly redactions?: readonly PiiFinding[];
}

export interface CheckBatch {
  /** One result for each check, in the same order: a decision, or an error. */
  readonly results: readonly (ServiceDecision | ErrorBody)[];
}

export interface CheckBatchRequest {
  /** The checks; each is what the body of `check` would be. */
  readonly checks: readonly CheckRequest[];
}

export interface CheckRequest {
  /** The token that the agent presented. */
  readonly passport: string;
  /**
   * What the agent intends to do. Other members than the documented ones count for the request hash and
   * PII controls only.
   */
  readonly request: DecisionRequest;
}

export interface Permit {
  /** What was decided. */
  readonly decision: 'PERMIT';
  /** Reason code; null for a PERMIT. */
  readonly reason: null;
  /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
  readonly attestation_id: string;
  /** The checks made, in order. The last one determined the decision. */
  readonly constraints_evaluated: readonly CheckName[];
  /** Where personal data was found, never the data itself. */
  readonly pii?: readonly PiiFinding[];
  /** With a PERMIT of a gate that redacts: the request without the personal data in it. Pass this on. */
  readonly request_redacted?: Readonly<Record<string, unknown>>;
  /** What was replaced in `request_redacted`. */
  readonly redactions?: readonly PiiFinding[];
  /** The amount is held, and settled by an outcome. */
  readonly hold?: PermitHold;
  /** Signed statement of the sidecar about this answer. Only where the request asks for it. */
  readonly receipt?: Receipt;
}

export interface Suspend {
  /** What was decided. */
  readonly decision: 'SUSPEND';
  /** Reason code; null for a PERMIT. */
  readonly reason: 'approval_required';
  /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
  readonly attestation_id: null;
  /** The checks made, in order. The last one determined the decision. */
  readonly constraints_evaluated: readonly CheckName[];
  /** Where personal data was found, never the data itself. */
  readonly pii?: readonly PiiFinding[];
  readonly approval_id: string;
  /** The page of the console where a person answers. */
  readonly approval_url?: string;
  /** When it expires; null if it never expires. */
  readonly expires_at: string;
  /** Id of the condition that decided, of the gate or the passport; absent or null: none did. */
  readonly condition?: string;
  /** The reason as a sentence. */
  readonly detail?: string;
}

export interface Block {
  /** What was decided. */
  readonly decision: 'BLOCK';
  /** Reason code; null for a PERMIT. */
  readonly reason: ReasonName;
  /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
  readonly attestation_id: string;
  /** The checks made, in order. The last one determined the decision. */
  readonly constraints_evaluated: readonly CheckName[];
  /** The reason as a sentence. */
  readonly detail: string;
  /** Whether and when to retry. */
  readonly retry: {
    /** Whether the same request can succeed later. */
    readonly retryable: boolean;
    /** In how many milliseconds; null if unknown. */
    readonly after_ms: number | null;
  };
  /** The limit that the request would exceed, in its unit. */
  readonly limit?: number;
  /** How much of the limit was used already. */
  readonly used?: number;
  /** How much more was requested. */
  readonly requested?: number;
  /** When the window of the limit ends; null if it has no window. */
  readonly reset_at?: string | null;
  /** With `wallet_limit_exceeded`, for callers of the account of the wallet: the wallet whose limit it is. */
  readonly wallet_id?: string;
  /** Id of the condition that decided, of the gate or the passport; absent or null: none did. */
  readonly condition?: string;
  /** Where personal data was found, never the data itself. */
  readonly pii?: readonly PiiFinding[];
  /** Signed statement of the sidecar about this answer. Only where the request asks for it. */
  readonly receipt?: Receipt;
}

export type ServiceDecision = Permit | Suspend | Block;

export interface Receipt {
  /** Format of the receipt, `agent-trust.receipt.v1`. */
  readonly format: 'agent-trust.receipt.v1';
  /** What the sidecar states. */
  readonly statement: ReceiptStatement;
  /** Place of the statement in its turn, from 0. */
  readonly index: number;
  /** Number of statements in the turn, which one signature covers. */
  readonly size: number;
  /** Hashes that lead from the statement to the root of the turn, base64url. */
  readonly path: readonly string[];
  /** By the key of the sidecar over the root of the turn, base64url. */
  readonly signature: string;
  /** Whose key that is, signed by the control plane. */
  readonly certificate: SidecarCertificate;
  /** What the sidecar was last told; for the control plane alone. Null: nothing yet. */
  readonly history: ReceiptHistory | null;
}

export interface ReceiptStatement {
  /** Id of the record. */
  readonly attestation_id: string;
  /** The chain that the record will be in. */
  readonly chain_id: string;
  /** What was decided. */
  readonly decision: 'PERMIT' | 'BLOCK';
  /** Id of the gate; null: none. */
  readonly gate_id: string | null;
  /** When it was decided; of a PERMIT that is answered again: when it was answered. */
  readonly issued_at: string;
  /** The record is in the log by then. */
  readonly log_by: string;
  /** Reason of a BLOCK; null: a PERMIT. */
  readonly reason: string | null;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the request. */
  readonly request_hash: string;
}

export interface ReceiptHistory {
  /** What the control plane has told the sidecar. */
  readonly text: string;
  /** By a key of the control plane, so that nobody else makes one. */
  readonly mac: string;
}

export interface SidecarCertificate {
  /** The account of the sidecar. */
  readonly account_id: string;
  /** No receipt is issued later. */
  readonly expires_at: string;
  /** RFC 7638 thumbprint of `x`. */
  readonly kid: string;
  /** No receipt was issued earlier. */
  readonly not_before: string;
  /** What the key is for, `sidecar`. */
  readonly purpose: 'sidecar';
  readonly sidecar_id: string;
  /** The key of purpose `attestation` that has signed the certificate. */
  readonly signing_key_id: string;
  /** The public key of the sidecar, base64url of 32 bytes. */
  readonly x: string;
  /** Of the certificate, base64url; docs/receipts.md says over which text exactly. */
  readonly signature: string;
}

export interface PiiFinding {
  /** JSON pointer into the request. */
  readonly pointer: string;
  /** Kind of personal data. */
  readonly type: string;
}

export interface ApprovalResolution {
  /** Reason, for the record and for the agent's owner. At most 500 characters. */
  readonly note?: string | null;
  /**
   * The browser's answer to `navigator.credentials.get` as its `toJSON()` writes it, where the gate asks
   * for passkeys.
   */
  readonly assertion?: Readonly<Record<string, unknown>> | null;
}

export interface Approval {
  readonly approval_id: string;
  /** The page of the console where a person answers. */
  readonly approval_url: string;
  /** This resource of the API. */
  readonly approval_api_url: string;
  /** `approved` until it is used, denied or expired. */
  readonly status: 'pending' | 'approved' | 'denied' | 'expired' | 'used';
  /** The passport of the requesting agent. */
  readonly passport_id: string;
  /** The requesting agent, as its owner named it. */
  readonly agent_id: string;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user: string | null;
  /** The gate of the request. */
  readonly gate_id: string;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the request. */
  readonly request_hash: string;
  /** The requested permission. */
  readonly permission_key: string | null;
  /** What the request would spend; null if it has no amount. Held until the approval ends. */
  readonly amount_usd: number | null;
  /** What is asked, as the resource server wrote it; null if it did not, and 90 days after the end. */
  readonly display: {
    /** What is asked, in one line. */
    readonly title: string;
    /** Details, in the order to show them. */
    readonly lines: readonly {
      /** What the value is. */
      readonly label: string;
      /** The value. */
      readonly value: string;
    }[];
    /** Where the request can be looked at; null if nowhere. */
    readonly url: string | null;
  } | null;
  /** The condition that asks for it; null: another rule does. The first, of several. */
  readonly condition: string | null;
  /** When the request was made. */
  readonly created_at: string;
  /** Deadline to approve or deny; once approved, deadline to use the approval. */
  readonly expires_at: string;
  /** When it was approved or denied; null if it was not. */
  readonly resolved_at: string | null;
  /** The `key_id` or `user_id` that resolved it; null if nobody did. */
  readonly resolved_by: string | null;
  /** What that person wrote; null if nothing. */
  readonly note: string | null;
  /** What people have said, in the order in which they did. Answers that were taken back are left out. */
  readonly answers: readonly {
    /** The person. */
    readonly user_id: string;
    /** `approved` or `denied`. */
    readonly answer: 'approved' | 'denied';
    /** When it was given. */
    readonly at: string;
    /** What that person wrote; null if nothing. */
    readonly note: string | null;
    /** Whether it was signed with a passkey. */
    readonly signed: boolean;
  }[];
}

export interface ApprovalDetail {
  readonly approval_id: string;
  /** The page of the console where a person answers. */
  readonly approval_url: string;
  /** This resource of the API. */
  readonly approval_api_url: string;
  /** `approved` until it is used, denied or expired. */
  readonly status: 'pending' | 'approved' | 'denied' | 'expired' | 'used';
  /** The passport of the requesting agent. */
  readonly passport_id: string;
  /** The requesting agent, as its owner named it. */
  readonly agent_id: string;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user: string | null;
  /** The gate of the request. */
  readonly gate_id: string;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the request. */
  readonly request_hash: string;
  /** The requested permission. */
  readonly permission_key: string | null;
  /** What the request would spend; null if it has no amount. Held until the approval ends. */
  readonly amount_usd: number | null;
  /** What is asked, as the resource server wrote it; null if it did not, and 90 days after the end. */
  readonly display: {
    /** What is asked, in one line. */
    readonly title: string;
    /** Details, in the order to show them. */
    readonly lines: readonly {
      /** What the value is. */
      readonly label: string;
      /** The value. */
      readonly value: string;
    }[];
    /** Where the request can be looked at; null if nowhere. */
    readonly url: string | null;
  } | null;
  /** The condition that asks for it; null: another rule does. The first, of several. */
  readonly condition: string | null;
  /** When the request was made. */
  readonly created_at: string;
  /** Deadline to approve or deny; once approved, deadline to use the approval. */
  readonly expires_at: string;
  /** When it was approved or denied; null if it was not. */
  readonly resolved_at: string | null;
  /** The `key_id` or `user_id` that resolved it; null if nobody did. */
  readonly resolved_by: string | null;
  /** What that person wrote; null if nothing. */
  readonly note: string | null;
  /** What people have said, in the order in which they did. Answers that were taken back are left out. */
  readonly answers: readonly {
    /** The person. */
    readonly user_id: string;
    /** `approved` or `denied`. */
    readonly answer: 'approved' | 'denied';
    /** When it was given. */
    readonly at: string;
    /** What that person wrote; null if nothing. */
    readonly note: string | null;
    /** Whether it was signed with a passkey. */
    readonly signed: boolean;
    /** The name of the person today; null if the person was removed. */
    readonly name: string | null;
    /** The `key_id` or `user_id` that invited the person; null: nobody, or not known. */
    readonly invited_by: string | null;
    /** The name of that person or key today; null if there is none. */
    readonly invited_by_name: string | null;
    /** False if the person may not answer any more. */
    readonly counts: boolean;
    /** What the passkey signed, and its public key; null if it signed nothing. */
    readonly assertion: AnswerProof | null;
  }[];
  /** Amount of the request, in millionths of a USD; null if it had none. */
  readonly amount_micro_usd: number | null;
  /** The name of the person or key in `resolved_by` today; null if there is none. */
  readonly resolved_by_name: string | null;
  /** How many different people have to approve. */
  readonly answers_needed: number;
  /** How many more. 0 once it is resolved. */
  readonly answers_missing: number;
  /** Whether each answer is signed with a passkey. */
  readonly passkey: boolean;
  /** The policy that signed answers name; null if none is signed. */
  readonly policy_hash: string | null;
  /** About the caller. */
  readonly you: {
    /** Whether the caller may approve or deny now. */
    readonly may_answer: boolean;
    /** Why not; null if the caller may. */
    readonly why_not: 'resolved' | 'answered' | 'scope' | 'api_key' | 'role' | 'not_named' | 'requester' | 'requester_unknown' | 'unconfirmed' | 'accepted_later' | 'one_person' | 'no_passkey' | null;
    /** The same in words, with what to do. */
    readonly message: string | null;
    /** Whether each answer is signed with a passkey. */
    readonly passkey: {
      /** The host of the service. */
      readonly rp_id: string;
      /** The caller's passkeys. */
      readonly credential_ids: readonly string[];
    } | null;
  };
}

export interface AnswerProof {
  /** The passkey, `pkey_…`. */
  readonly passkey_id: string;
  /** The id of the passkey. */
  readonly credential_id: string;
  /** The public key of the passkey, as a JWK. */
  readonly public_key: {
    /** Key type (RFC 8037). */
    readonly kty: 'EC';
    /** Curve (RFC 8037). */
    readonly crv: 'P-256';
    /** base64url of the key, or of its first coordinate. */
    readonly x: string;
    /** base64url of the second coordinate, of an EC key. */
    readonly y: string;
  } | {
    /** Key type (RFC 8037). */
    readonly kty: 'OKP';
    /** Curve (RFC 8037). */
    readonly crv: 'Ed25519';
    /** base64url of the key, or of its first coordinate. */
    readonly x: string;
  } | {
    /** Key type (RFC 8037). */
    readonly kty: 'RSA';
    /** base64url of the modulus, of an RSA key. */
    readonly n: string;
    /** base64url of the exponent, of an RSA key. */
    readonly e: string;
  };
  /** The policy of the gate that was signed. */
  readonly policy_hash: string;
  /** The host of the service. */
  readonly rp_id: string;
  /** The origin of the page on which it was signed. */
  readonly origin: string;
  /** As the authenticator gave it, base64url. */
  readonly authenticator_data: string;
  /** As the browser signed it, base64url. Its challenge is that of the answer. */
  readonly client_data_json: string;
  /** Over `authenticator_data` and the SHA-256 of `client_data_json`, base64url. */
  readonly signature: string;
}

export interface ApprovalPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Approval[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface McpPin {
  readonly pin_id: string;
  /** The page of the console that shows the difference. */
  readonly pin_url: string;
  readonly gate_id: string;
  /** The MCP server, as its guard names it: an address without its query, or a program. */
  readonly upstream: string;
  /** The name of the tool. */
  readonly tool: string;
  /** `changed` waits for a person; `rejected` keeps in force what was accepted before. */
  readonly status: 'pinned' | 'changed' | 'rejected';
  /**
   * `changed`: another definition; `added`: not in the first list; `renamed` and `look_alike`: added, and
   * it equals `resembles` but for its name, or its name is taken for it; `readded`: it was gone in
   * between. Null while pinned.
   */
  readonly change: 'changed' | 'added' | 'renamed' | 'look_alike' | 'readded' | null;
  /** The tool that it looks like, or had been; null if none. */
  readonly resembles: string | null;
  /** SHA-256 of `definition`, which is in force; null if none was accepted. */
  readonly hash: string | null;
  /** SHA-256 of the definition that waits, or was rejected; null while pinned. */
  readonly new_hash: string | null;
  /** When a guard saw the tool first. */
  readonly first_seen_at: string;
  /** When it last ceased to be as it was pinned; null if never. */
  readonly changed_at: string | null;
  /** When a person last answered; null if never. */
  readonly resolved_at: string | null;
  /** The key or person that last answered; null if nobody did. */
  readonly resolved_by: string | null;
  /** The tool in force, in the form of RFC 8785; null if none was accepted. */
  readonly definition: string | null;
  /** The tool that waits, or was rejected; null while pinned. */
  readonly new_definition: string | null;
  /** Where the two differ, at most 200 places. */
  readonly differences: readonly {
    /** JSON pointer into the request. */
    readonly pointer: string;
    /**
     * State before the change, as this API shows it, without secrets; null if the object did not exist.
     * Where both exist, `before` and `after` contain only the members that differ.
     */
    readonly before: string | null;
    /** State after the change, likewise; null if the object no longer exists. */
    readonly after: string | null;
  }[];
}

export interface McpPinListItem {
  readonly pin_id: string;
  /** The page of the console that shows the difference. */
  readonly pin_url: string;
  readonly gate_id: string;
  /** The MCP server, as its guard names it: an address without its query, or a program. */
  readonly upstream: string;
  /** The name of the tool. */
  readonly tool: string;
  /** `changed` waits for a person; `rejected` keeps in force what was accepted before. */
  readonly status: 'pinned' | 'changed' | 'rejected';
  /**
   * `changed`: another definition; `added`: not in the first list; `renamed` and `look_alike`: added, and
   * it equals `resembles` but for its name, or its name is taken for it; `readded`: it was gone in
   * between. Null while pinned.
   */
  readonly change: 'changed' | 'added' | 'renamed' | 'look_alike' | 'readded' | null;
  /** The tool that it looks like, or had been; null if none. */
  readonly resembles: string | null;
  /** SHA-256 of the definition in force; null if none was accepted. */
  readonly hash: string | null;
  /** SHA-256 of the definition that waits, or was rejected; null while pinned. */
  readonly new_hash: string | null;
  /** When a guard saw the tool first. */
  readonly first_seen_at: string;
  /** When it last ceased to be as it was pinned; null if never. */
  readonly changed_at: string | null;
  /** When a person last answered; null if never. */
  readonly resolved_at: string | null;
  /** The key or person that last answered; null if nobody did. */
  readonly resolved_by: string | null;
}

export interface McpPinPage {
  /** The objects of this page, newest first. */
  readonly items: readonly McpPinListItem[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface McpPinResolution {
  /** `new_hash` of the pin that you have looked at. */
  readonly hash: string;
}

export interface McpGuardPin {
  readonly pin_id: string;
  /** The page of the console that shows the difference. */
  readonly pin_url: string;
  /** The name of the tool. */
  readonly tool: string;
  /** `changed` waits for a person; `rejected` keeps in force what was accepted before. */
  readonly status: 'pinned' | 'changed' | 'rejected';
  /** SHA-256 of the definition in force; null if none was accepted. */
  readonly hash: string | null;
  /** SHA-256 of the definition that waits, or was rejected; null while pinned. */
  readonly new_hash: string | null;
  /**
   * `changed`: another definition; `added`: not in the first list; `renamed` and `look_alike`: added, and
   * it equals `resembles` but for its name, or its name is taken for it; `readded`: it was gone in
   * between. Null while pinned.
   */
  readonly change: 'changed' | 'added' | 'renamed' | 'look_alike' | 'readded' | null;
  /** When it last ceased to be as it was pinned; null if never. */
  readonly changed_at: string | null;
  /** When a person last answered; null if never. */
  readonly resolved_at: string | null;
}

export interface McpToolReport {
  readonly gate_id: string;
  /** The MCP server, as its guard names it: an address without its query, or a program. */
  readonly upstream: string;
  /** Tools of one or more answers to `tools/list`. None: only to read the pins. */
  readonly tools: readonly {
    /** Name, title, description, schemas and annotations of the tool, in the form of RFC 8785. */
    readonly definition: string;
    /** It was in a list of this client, then in none, and is back. */
    readonly readded?: boolean | null;
  }[];
  /** With these tools the list is whole: new ones wait for a person from now on. */
  readonly is_whole?: boolean | null;
  /** Of the answer before: without a change since, `pins` is null. */
  readonly revision?: number | null;
}

export interface McpToolReportResult {
  /** Rises with every change of the pins. */
  readonly revision: number;
  /** All pins of this upstream; null if `revision` is known. */
  readonly pins: readonly McpGuardPin[] | null;
  /** Of the gate, all types named; null if it has none. */
  readonly pii_controls: {
    /** `live` or `test`: two environments that are kept apart. */
    readonly mode: 'log_only' | 'redact' | 'block';
    /** Kinds of personal data that are looked for. Absent: all. */
    readonly types: readonly ('email' | 'phone' | 'payment_card' | 'iban' | 'us_ssn' | 'ip_address')[];
  } | null;
}

export interface WalletCreation {
  /** Name, for people. */
  readonly name: string;
  /** The wallet above it; null: it is a root. */
  readonly parent_wallet_id?: string | null;
  /** Limits of the wallet, in UTC calendar windows; one that is absent is none. */
  readonly limits?: WalletLimitsChange | null;
  /**
   * `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
   * it alone, and may not sum to more than those of the parent.
   */
  readonly share?: 'pot' | 'reserved' | null;
  /** The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8. */
  readonly alert_at?: number | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>> | null;
}

export interface WalletPatch {
  /** Name, for people. */
  readonly name?: string | null;
  /** The wallet above it; null: it is a root. */
  readonly parent_wallet_id?: string | null;
  /** Merged into the limits of the wallet; null removes one, or all. */
  readonly limits?: WalletLimitsChange | null;
  /**
   * `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
   * it alone, and may not sum to more than those of the parent.
   */
  readonly share?: 'pot' | 'reserved' | null;
  /** The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8. */
  readonly alert_at?: number | null;
  /** Merged into the labels; null removes one, or all. */
  readonly labels?: Readonly<Record<string, unknown>> | null;
  readonly wallet_id?: string | null;
  /** Ids of the wallets from the root down to this one. */
  readonly path?: readonly string[] | null;
  readonly status?: 'active' | 'frozen' | null;
  readonly created_at?: string | null;
  /** What is left of each of its limits, by their names. */
  readonly usage?: {
    /** The most that may be spent in a UTC hour. */
    readonly hourly_usd?: WalletUsage;
    /** The most that may be spent in a UTC day. */
    readonly daily_usd?: WalletUsage;
    /** The most that may be spent in a UTC month. */
    readonly monthly_usd?: WalletUsage;
    /** The most that all its requests may spend together, in USD. */
    readonly total_usd?: WalletUsage;
    /** Requests in a UTC minute. */
    readonly requests_per_minute?: WalletUsage;
    /** Requests in a UTC day. */
    readonly requests_per_day?: WalletUsage;
  } | null;
  /** Passports in the wallet itself that may still be used. */
  readonly passports?: number | null;
  /** The newest 200 wallets below it. `GET /wallets?parent_wallet_id=` lists all. */
  readonly children?: readonly Wallet[] | null;
  /** How many wallets are below it. */
  readonly children_total?: number | null;
}

export interface WalletLimits {
  /** The most that may be spent in a UTC hour. */
  readonly hourly_usd?: number;
  /** The most that may be spent in a UTC day. */
  readonly daily_usd?: number;
  /** The most that may be spent in a UTC month. */
  readonly monthly_usd?: number;
  /** The most that all its requests may spend together, in USD. */
  readonly total_usd?: number;
  /** Requests in a UTC minute. */
  readonly requests_per_minute?: number;
  /** Requests in a UTC day. */
  readonly requests_per_day?: number;
}

export interface WalletLimitsChange {
  /** The most that may be spent in a UTC hour. */
  readonly hourly_usd?: number | null;
  /** The most that may be spent in a UTC day. */
  readonly daily_usd?: number | null;
  /** The most that may be spent in a UTC month. */
  readonly monthly_usd?: number | null;
  /** The most that all its requests may spend together, in USD. */
  readonly total_usd?: number | null;
  /** Requests in a UTC minute. */
  readonly requests_per_minute?: number | null;
  /** Requests in a UTC day. */
  readonly requests_per_day?: number | null;
}

export interface Wallet {
  readonly wallet_id: string;
  /** Ids of the wallets from the root down to this one. */
  readonly path: readonly string[];
  /** `active`, or `frozen`: all its passports are blocked, and those of the wallets below it. */
  readonly status: 'active' | 'frozen';
  readonly created_at: string;
  /** Name, for people. */
  readonly name: string;
  /** The wallet above it; null: it is a root. */
  readonly parent_wallet_id: string | null;
  /** Limits of the wallet, in UTC calendar windows; one that is absent is none. */
  readonly limits: WalletLimits;
  /**
   * `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
   * it alone, and may not sum to more than those of the parent.
   */
  readonly share: 'pot' | 'reserved';
  /** The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8. */
  readonly alert_at: number;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
}

export interface WalletPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Wallet[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface WalletDetail {
  readonly wallet_id: string;
  /** Ids of the wallets from the root down to this one. */
  readonly path: readonly string[];
  readonly status: 'active' | 'frozen';
  readonly created_at: string;
  /** Name, for people. */
  readonly name: string;
  /** The wallet above it; null: it is a root. */
  readonly parent_wallet_id: string | null;
  /** Limits of the wallet, in UTC calendar windows; one that is absent is none. */
  readonly limits: WalletLimits;
  /**
   * `pot`: it draws on what its parent has left. `reserved`: its limits are set aside in its parent, for
   * it alone, and may not sum to more than those of the parent.
   */
  readonly share: 'pot' | 'reserved';
  /** The fraction of a spend limit, above 0, at which `spend_limit.approaching` fires. Default 0.8. */
  readonly alert_at: number;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  /** What is left of each of its limits, by their names. */
  readonly usage: {
    /** The most that may be spent in a UTC hour. */
    readonly hourly_usd?: WalletUsage;
    /** The most that may be spent in a UTC day. */
    readonly daily_usd?: WalletUsage;
    /** The most that may be spent in a UTC month. */
    readonly monthly_usd?: WalletUsage;
    /** The most that all its requests may spend together, in USD. */
    readonly total_usd?: WalletUsage;
    /** Requests in a UTC minute. */
    readonly requests_per_minute?: WalletUsage;
    /** Requests in a UTC day. */
    readonly requests_per_day?: WalletUsage;
  };
  /** Passports in the wallet itself that may still be used. */
  readonly passports: number;
  /** The newest 200 wallets below it. `GET /wallets?parent_wallet_id=` lists all. */
  readonly children: readonly Wallet[];
  /** How many wallets are below it. */
  readonly children_total: number;
}

export interface WalletUsage {
  /** The limit, in USD or requests. */
  readonly limit: number;
  /** What is given out otherwise: what PERMITs have taken in this window. */
  readonly used: number;
  /** What open holds have, and requests that wait for people. */
  readonly held: number;
  /** What wallets below it have set aside and can still use. */
  readonly reserved: number;
  /** What sidecars hold and no record shows as used. */
  readonly leased: number;
  /** What everybody may still take who has nothing set aside. */
  readonly remaining: number;
  /** When its window ends; null: never. */
  readonly reset_at: string | null;
}

export interface WalletStatement {
  readonly wallet_id: string;
  /** Only records from this time on. */
  readonly since: string;
  /** Only records before this time. */
  readonly until: string;
  /** USD of all lines, also of those on other pages. */
  readonly total_usd: number;
  /** PERMITs of all lines. */
  readonly total_requests: number;
  /** The objects of this page, newest first. */
  readonly items: readonly {
    readonly passport_id: string;
    readonly gate_id: string | null;
    /** The permission requested or offered: `<area>:<action>`. */
    readonly permission_key: string | null;
    /** What was spent in this window, in USD. */
    readonly spent_usd: number;
    /** Number of these PERMITs. */
    readonly requests: number;
  }[];
  /** For `page`; null: no lines follow. */
  readonly next_page: string | null;
}

export interface WalletDeletion {
  readonly wallet_id: string;
  /** Whether it is deleted. */
  readonly deleted: true;
  /** When it was deleted. */
  readonly deleted_at: string;
}

export interface PassportWallet {
  /** The wallet; null: none any more. */
  readonly wallet_id: string | null;
}

export interface StandingApprovalCreation {
  readonly gate_id: string;
  /** A passport of this account, or one that has asked for an approval at the gate. */
  readonly passport_id?: string | null;
  /** A person or team of the account, in place of `passport_id`: for all its passports, later ones too. */
  readonly owner?: string | null;
  /** The permission. Some request for it of up to `each_usd` must wait for an approval at the gate. */
  readonly permission_key: string;
  /** The most that one request may spend, in USD. */
  readonly each_usd: number;
  /** The most that all its requests may spend together, in USD. */
  readonly total_usd: number;
  /** In the future, at most 90 days away. */
  readonly expires_at: string;
  /** Why it is made. At most 500 characters. */
  readonly note?: string | null;
}

export interface StandingApproval {
  readonly standing_approval_id: string;
  /**
   * `active` until it is `expired`, `revoked` (ended by a caller) or `policy_changed` (the gate has
   * another policy, or is deleted).
   */
  readonly status: 'active' | 'expired' | 'revoked' | 'policy_changed';
  /** The gate at which it holds. */
  readonly gate_id: string;
  /** The passport that it is for; null: it is for those of an owner. */
  readonly passport_id: string | null;
  /** The agent of that passport, as its owner named it; null with an owner. */
  readonly agent_id: string | null;
  /** The person or team whose passports it is for, later ones too; null: it is for one passport. */
  readonly owner: string | null;
  /** The permission that it is for. */
  readonly permission_key: string;
  /** The most that one request may spend, in USD. */
  readonly each_usd: number;
  /** The most that all its requests may spend together, in USD. */
  readonly total_usd: number;
  /** What its requests have spent, in USD, as far as their records have arrived. */
  readonly used_usd: number;
  /** Of the rest, what sidecars hold and no record shows as spent. */
  readonly leased_usd: number;
  /** `total_usd` less `used_usd`. At 0 a person is asked again. */
  readonly left_usd: number;
  /** Why it was made; null if that was not said. */
  readonly note: string | null;
  /** When it was made. */
  readonly created_at: string;
  /** The key or person that made it. */
  readonly created_by: string;
  /** From then on a person is asked again. */
  readonly expires_at: string;
  /** When a caller or a change of the policy ended it; null if neither did before `expires_at`. */
  readonly ended_at: string | null;
  /** The key or person that ended it; null otherwise. */
  readonly ended_by: string | null;
}

export interface StandingApprovalPage {
  /** The objects of this page, newest first. */
  readonly items: readonly StandingApproval[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export type HoldAsk = boolean | {
  /** From 60 to 604800. Default: as the gate has it, else 3600. */
  readonly expires_in_s?: number | null;
};

export interface PermitHold {
  /** What is held, in USD. */
  readonly amount_usd: number;
  /** When it ends without an outcome. */
  readonly expires_at: string;
}

export interface HoldState {
  /** `open`, then `settled` (served), `released` (failed) or `expired` (no outcome came in time). */
  readonly status: 'open' | 'settled' | 'released' | 'expired';
  /** What is held, or was, in USD. */
  readonly amount_usd: number;
  /** When it ends, or would have, without an outcome. */
  readonly expires_at: string;
}

export interface OutcomeReport {
  /** `served`, or `failed`: then all that is held goes back. */
  readonly outcome: 'served' | 'failed';
  /** What it came to, in USD. Default: all that is held. */
  readonly amount?: number | null;
  /** For the people who read the list. At most 500 characters. */
  readonly detail?: string | null;
}

export interface HoldExtension {
  /** From 60 to 604800, counted from now. */
  readonly expires_in_s: number;
}

export interface RefundRequest {
  /** In USD. Default: all that counts. */
  readonly amount?: number | null;
  /** For the audit. At most 500 characters. */
  readonly reason?: string | null;
}

export interface PermitOutcome {
  /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
  readonly attestation_id: string;
  readonly gate_id: string | null;
  readonly passport_id: string | null;
  /** `served` or `failed`; null if none was reported. */
  readonly outcome: 'served' | 'failed' | null;
  /** As reported, in USD; null: all that was held. */
  readonly amount_usd: number | null;
  /** What the reporter said for people; null if nothing. */
  readonly detail: string | null;
  /** When it was reported. */
  readonly reported_at: string | null;
  /** Null: the PERMIT was not held. */
  readonly hold: HoldState | null;
  /** What the PERMIT counts now, in USD; null if it has no amount. */
  readonly counts_usd: number | null;
  /** What was refunded so far, in USD. */
  readonly refunded_usd: number;
  /** The last record that refers to the PERMIT; null if there is none. */
  readonly record_id: string | null;
}

export interface HoldPage {
  /** The objects of this page, newest first. */
  readonly items: readonly PermitOutcome[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface ReportedOutcome {
  readonly outcome_id: string;
  /** `waiting` for its PERMIT, or `refused`. */
  readonly status: 'waiting' | 'refused';
  /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
  readonly attestation_id: string;
  /** `served` or `failed`; null if none was reported. */
  readonly outcome: 'served' | 'failed';
  /** As reported, in USD; null: all that was held. */
  readonly amount_usd: number | null;
  /** What the reporter said for people; null if nothing. */
  readonly detail: string | null;
  readonly sidecar_id: string;
  /** When it was reported. */
  readonly reported_at: string;
  /** When the control plane had it. */
  readonly received_at: string;
  /** Why it was refused; null while it waits. */
  readonly refusal: {
    /** For programs to branch on; a closed list, see docs/errors.md. */
    readonly code: string;
    /** Text for people. */
    readonly message: string;
  } | null;
}

export interface ReportedOutcomePage {
  /** The objects of this page, newest first. */
  readonly items: readonly ReportedOutcome[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface Attestation {
  /** Amount of the request, in millionths of a USD; null if it had none. */
  readonly amount_micro_usd: number | null;
  /**
   * The approval that a PERMIT used, or that a SUSPEND is about. This and the other members of form 2
   * (contract §9) are absent from older records.
   */
  readonly approval_id?: string | null;
  /** Whether the subject was named without its token. */
  readonly asserted?: boolean | null;
  /** The passport, gate or account whose chain this record belongs to. */
  readonly chain_id: string;
  /** Ids of the conditions that failed; null without conditions. */
  readonly conditions?: readonly string[] | null;
  /** The checks made, in order. The last one determined the decision. */
  readonly constraints_evaluated: readonly CheckName[];
  /** What was decided. */
  readonly decision: 'PERMIT' | 'SUSPEND' | 'BLOCK';
  /**
   * Host that the request named, in its canonical form; null if it named none, or where the gate finds
   * personal data in it.
   */
  readonly domain?: string | null;
  /** Answer of an external decision point; null: none was asked. */
  readonly external?: {
    /** Commitment to a value, `sha256:` and hex. */
    readonly commitment: string | null;
    /** What was decided. */
    readonly decision: boolean | null;
  } | null;
  /** Commitments to the values that the decision read; null: none. */
  readonly facts?: readonly {
    /** Commitment to a value, `sha256:` and hex. */
    readonly commitment: string;
    /** JSON pointer of the value. */
    readonly path: string;
  }[] | null;
  /** The gate that decided; null for a decision without a gate. */
  readonly gate_id: string | null;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the record without hash and signature. */
  readonly hash: string;
  /** When the hold of a PERMIT ends; null where none is open. */
  readonly hold_expires_at?: string | null;
  readonly id: string;
  /** The passport that was presented; null if it did not verify. */
  readonly passport_id: string | null;
  /** The requested permission; null if none. */
  readonly permission_key: string | null;
  /** The `jti` of the permit token in the answer; null: none. */
  readonly permit_token?: string | null;
  /** Where personal data was found, never the data itself. */
  readonly pii: readonly {
    /** JSON pointer into the request. */
    readonly pointer: string;
    /** Kind of personal data. */
    readonly type: string;
  }[];
  /** Hash of the policy that decided; null without a gate, or if the policy is not on record. */
  readonly policy_hash?: string | null;
  /** `hash` of the previous record in the chain; null for the first. */
  readonly previous_attestation_hash: string | null;
  /** How possession of the passport's key was proved; null if it was not. */
  readonly proof?: 'dpop' | 'httpsig' | null;
  /** Reason code; null for a PERMIT. */
  readonly reason: ReasonName | null;
  /** The approval that the record resolves, or the attestation that it voids. */
  readonly refers_to?: string | null;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the request. */
  readonly request_hash: string;
  /**
   * How a SUSPEND was resolved, or `voided`: the decision in `refers_to` has no effect. Null for every
   * other record.
   */
  readonly resolution: 'approved' | 'denied' | 'expired' | 'voided' | 'settled' | 'released' | 'extended' | 'refunded' | 'reported' | null;
  /** Place in the chain, from 1. */
  readonly sequence: number;
  /** What another policy would have decided; null: none. */
  readonly shadow?: {
    /** Id of the condition that decided, of the gate or the passport; absent or null: none did. */
    readonly condition: string | null;
    /** What was decided. */
    readonly decision: 'PERMIT' | 'SUSPEND' | 'BLOCK' | null;
    /** Hash of the policy that decided; null without a gate, or if the policy is not on record. */
    readonly policy_hash: string;
    /** Reason code; null for a PERMIT. */
    readonly reason: string | null;
  } | null;
  /** base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly. */
  readonly signature: string;
  /** `kid` of the key that signed, in the JWKS. */
  readonly signing_key_id: string;
  /** Id of the sidecar that decided, or `control-plane`. */
  readonly source: string;
  /** Account of that sidecar, or of the call that the control plane answered. */
  readonly source_account?: string | null;
  /** Age of the state of the sidecar that decided; null if a control plane did, or if not known. */
  readonly state_age_ms?: number | null;
  /** Whether it was a gate test. */
  readonly test: boolean;
  /** When it was decided. */
  readonly timestamp: string;
  /** Trust level of the gate when it decided; null without a gate. */
  readonly trust_level?: 'L1' | 'L2' | 'L3' | null;
  /** Units of what is no money, by name; null: none. */
  readonly units?: Readonly<Record<string, unknown>> | null;
  /** Commitment to the person behind the agent; null: not known. */
  readonly user?: string | null;
  /** Wallet of the passport, `wal_…`; null without one. */
  readonly wallet_id?: string | null;
  /**
   * Digests of the wallets of the passport, from its own to the root, as the source of the record knew
   * them; empty: none, null: not known.
   */
  readonly wallet_path?: readonly string[] | null;
}

export interface AttestationPage {
  /** The records of this page. */
  readonly attestations: readonly Attestation[];
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
  /**
   * Records of the passports, gates and account of the caller that arrived before may be in archives, and
   * lists lack them; null: none are.
   */
  readonly archived_before: string | null;
}

export interface AttestationFacts {
  /** Id of the record. */
  readonly attestation_id: string;
  /** What opens commitments of the record (docs/facts.md). */
  readonly facts: readonly {
    /** True: the path was absent, and `value` is null. */
    readonly absent?: true;
    /** Commitment to a value, `sha256:` and hex. */
    readonly commitment: string;
    /** True: the RFC 8785 form of the value is longer than 1 KiB, and `value` is its hash. */
    readonly hashed?: true;
    /** JSON pointer of the value. */
    readonly path: string;
    /** base64url of the 16 random bytes in the commitment. */
    readonly salt: string;
    /** What the decision read there. */
    readonly value: unknown;
  }[];
}

export interface Export {
  /** What the export holds. */
  readonly manifest: {
    /** When the export was made. */
    readonly created_at: string;
    /** Name and version of the format. */
    readonly format: 'agent-trust.attestations.v1' | 'agent-trust.attestations.v2';
    /** Name of the history of the database. */
    readonly generation?: string | null;
    /** `kid` of every key that may have signed a record of the export. */
    readonly key_ids: readonly string[];
    /** Each chain starts at its first record that is not older than this; null: at its first record. */
    readonly since: string | null;
  };
  /** The chains in ascending order of `chain_id`, each with its records; at the end, how many. */
  readonly chains: readonly {
    /**
     * The last of the records that were moved to an archive: the chain goes on behind it. Absent: none
     * were.
     */
    readonly archived?: {
      /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the record without hash and signature. */
      readonly hash: string;
      /** The `sequence` of the last record that is in an archive. */
      readonly through_sequence: number;
    } | null;
    /** The passport, gate or account whose chain this record belongs to. */
    readonly chain_id: string;
    /** `sequence` of the first record of the chain that follows. */
    readonly first_sequence: number;
    /** `hash` of the last one. */
    readonly last_hash: string;
    /** `sequence` of the last one. */
    readonly last_sequence: number;
    /** The tlog-proof of one of its records (docs/log.md); absent: the transparency log has none yet. */
    readonly log_proof?: string | null;
    /** `hash` of the previous record in the chain; null for the first. */
    readonly previous_attestation_hash: string | null;
    /** The records of this page. */
    readonly attestations: readonly (Attestation | AttestationFacts)[];
  }[];
  /**
   * What the records name, each with its signature: `policy`, `catalog`, `passport` or `approval`.
   * docs/verify.md has their members. Absent: they name nothing.
   */
  readonly attachments?: readonly (Readonly<Record<string, unknown>>)[] | null;
  /** End line: shows that nothing is missing at the end. */
  readonly end: {
    /** Chains that are not whole in the database. Absent: all are. */
    readonly broken?: readonly BrokenChain[] | null;
    /** How many more are not whole. Absent: none. */
    readonly broken_unnamed?: number | null;
    /** The chains in ascending order of `chain_id`, each with its records; at the end, how many. */
    readonly chains: number;
    /** How many records there are in all. */
    readonly records: number;
  };
}

export interface BrokenChain {
  /** The passport, gate or account whose chain this record belongs to. */
  readonly chain_id: string;
  /** What is wrong with the chain. */
  readonly fault: string;
  /** Place in the chain, from 1. */
  readonly sequence: number;
}

export interface Actor {
  /** The OAuth client to which the access token was issued; null for an API key. */
  readonly client_id: string | null;
  /** Id of the actor: the `key_id` of the API key. */
  readonly id: string;
  /**
   * `api_key`: with this key; `access_token`: with a token that is bound to it. Others may come, such as
   * people with a login.
   */
  readonly type: string;
}

export interface AuditEntry {
  readonly account_id: string;
  /** Who made the change. */
  readonly actor: Actor;
  /** State after the change, likewise; null if the object no longer exists. */
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly audit_id: string;
  /**
   * State before the change, as this API shows it, without secrets; null if the object did not exist.
   * Where both exist, `before` and `after` contain only the members that differ.
   */
  readonly before: Readonly<Record<string, unknown>> | null;
  /** When the change was made. */
  readonly created_at: string;
  /** `sha256:` and hex of SHA-256 over the RFC 8785 form of the entry without hash and signature. */
  readonly hash: string;
  /** `live` or `test`: two environments that are kept apart. */
  readonly mode: 'live' | 'test';
  /** The operation: an operationId of this document. */
  readonly operation: string;
  /** `hash` of the previous entry in the chain; null for the first. */
  readonly previous_hash: string | null;
  /** Names the request; also in `X-Request-Id`. */
  readonly request_id: string;
  /** Place in the chain, from 1. */
  readonly sequence: number;
  /** base64url of the Ed25519 signature over the hash; docs/audit.md says over which text exactly. */
  readonly signature: string;
  /** `kid` of the key that signed, in the JWKS. */
  readonly signing_key_id: string;
  /** Id of what was changed. */
  readonly target: string;
}

export interface AuditPage {
  /** The entries of this page. */
  readonly entries: readonly AuditEntry[];
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface IssuerCreation {
  /** Name, for people. */
  readonly name: string;
  /** Host name that the issuer claims; nobody verified it. */
  readonly domain?: string | null;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  /** Free-form, kept and answered as sent. At most 16 KiB of JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | null;
  readonly wallet_id?: string | null;
  /**
   * What makes this an issuer of others, whose own JWTs are passports; null if its passports are issued
   * here.
   */
  readonly federation?: FederationCreation | null;
}

export interface IssuerUpdate {
  /** Name, for people. */
  readonly name?: string | null;
  /** Free-form, kept and answered as sent. At most 16 KiB of JSON. */
  readonly metadata?: Readonly<Record<string, unknown>> | null;
  readonly status?: 'active' | 'suspended' | null;
  readonly wallet_id?: string | null;
  /**
   * What makes this an issuer of others, whose own JWTs are passports; null if its passports are issued
   * here.
   */
  readonly federation?: FederationUpdate | null;
  readonly issuer_id?: string | null;
  /** Host name that the issuer claims; nobody verified it. */
  readonly domain?: string | null;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  readonly created_at?: string | null;
  /** Passports issued in its name. */
  readonly passport_count?: number | null;
  /** Of these, active now. */
  readonly active_passports?: number | null;
  /** Of these, revoked. */
  readonly revoked_passports?: number | null;
  /** When the last one was issued; null if none was issued yet. */
  readonly last_passport_issued_at?: string | null;
}

export interface Issuer {
  readonly issuer_id: string;
  /** Host name that the issuer claims; nobody verified it. */
  readonly domain: string | null;
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier: 'L1' | 'L2' | 'L3';
  readonly created_at: string;
  /** Passports issued in its name. */
  readonly passport_count: number;
  /** Of these, active now. */
  readonly active_passports: number;
  /** Of these, revoked. */
  readonly revoked_passports: number;
  /** When the last one was issued; null if none was issued yet. */
  readonly last_passport_issued_at: string | null;
  /** Name, for people. */
  readonly name: string;
  /** Free-form, kept and answered as sent. At most 16 KiB of JSON. */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly status: 'active' | 'suspended';
  /** The wallet that its passports come into when they are issued or first seen; null: none. */
  readonly wallet_id: string | null;
  /**
   * What makes this an issuer of others, whose own JWTs are passports; null if its passports are issued
   * here.
   */
  readonly federation: Federation | null;
}

export interface Federation {
  /** How it issues: OpenID Connect, any JWT with published or pasted keys, SPIFFE JWT-SVID. */
  readonly type: 'oidc' | 'jwks' | 'jwt-svid';
  /** What its tokens have as `iss`; for `jwt-svid` the trust domain of their `sub`. */
  readonly issuer: string;
  /** Values of `aud` that make a token a passport here. */
  readonly audiences: readonly string[];
  /** Signature algorithms that are accepted. Default: all of these. */
  readonly algorithms?: readonly ('RS256' | 'PS256' | 'ES256' | 'ES384' | 'EdDSA')[];
  /** How long the last good keys verify when they cannot be read again. Default 86400. */
  readonly max_key_age_s?: number;
  /** JSON pointers (RFC 6901) to the claims that say what a token becomes. */
  readonly claims?: FederationClaims;
  /**
   * Values of the permissions claim, each with the permissions that it grants; other values grant none.
   * Absent: the values are permissions.
   */
  readonly permission_map?: Readonly<Record<string, unknown>>;
  /** Permissions of every subject. */
  readonly permissions?: readonly string[];
  /** The highest tier that its passports get. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3';
  /** Patterns of subjects whose tokens are accepted; `*` stands for any characters. Absent: all. */
  readonly subjects?: readonly string[];
  /** Limits that apply to every decision. */
  readonly constraints?: PassportConstraints;
  /** Where its keys are published. Default for `oidc`: where its metadata says. */
  readonly jwks_uri?: string;
  /** Whether the keys were pasted. */
  readonly is_pasted: boolean;
  /** The keys that verify its tokens now. */
  readonly keys: readonly {
    /** What its tokens name the key by; null if by nothing. */
    readonly kid: string | null;
    /** The one algorithm that the key verifies. */
    readonly algorithm: 'RS256' | 'PS256' | 'ES256' | 'ES384' | 'EdDSA';
  }[];
  /** When the keys were last read where they are published; null if they were pasted. */
  readonly keys_read_at: string | null;
  /** Why the keys could not be read the last time, or what of them was passed over; null: neither. */
  readonly keys_fault: string | null;
}

export interface FederationCreation {
  /** How it issues: OpenID Connect, any JWT with published or pasted keys, SPIFFE JWT-SVID. */
  readonly type: 'oidc' | 'jwks' | 'jwt-svid';
  /** What its tokens have as `iss`; for `jwt-svid` the trust domain of their `sub`. */
  readonly issuer: string;
  /** Values of `aud` that make a token a passport here. */
  readonly audiences: readonly string[];
  /** Signature algorithms that are accepted. Default: all of these. */
  readonly algorithms?: readonly ('RS256' | 'PS256' | 'ES256' | 'ES384' | 'EdDSA')[] | null;
  /** How long the last good keys verify when they cannot be read again. Default 86400. */
  readonly max_key_age_s?: number | null;
  /** JSON pointers (RFC 6901) to the claims that say what a token becomes. */
  readonly claims?: FederationClaims | null;
  /**
   * Values of the permissions claim, each with the permissions that it grants; other values grant none.
   * Absent: the values are permissions.
   */
  readonly permission_map?: Readonly<Record<string, unknown>> | null;
  /** Permissions of every subject. */
  readonly permissions?: readonly string[] | null;
  /** The highest tier that its passports get. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  /** Patterns of subjects whose tokens are accepted; `*` stands for any characters. Absent: all. */
  readonly subjects?: readonly string[] | null;
  /** Limits that apply to every decision. */
  readonly constraints?: PassportConstraints | null;
  /** Where its keys are published. Default for `oidc`: where its metadata says. */
  readonly jwks_uri?: string | null;
  /** Its public keys (RFC 7517), pasted. They are never fetched and never too old. */
  readonly jwks?: Readonly<Record<string, unknown>> | null;
  readonly wallet_id?: string | null;
}

export interface FederationUpdate {
  /** How it issues: OpenID Connect, any JWT with published or pasted keys, SPIFFE JWT-SVID. */
  readonly type: 'oidc' | 'jwks' | 'jwt-svid';
  /** What its tokens have as `iss`; for `jwt-svid` the trust domain of their `sub`. */
  readonly issuer: string;
  /** Values of `aud` that make a token a passport here. */
  readonly audiences: readonly string[];
  /** Signature algorithms that are accepted. Default: all of these. */
  readonly algorithms?: readonly ('RS256' | 'PS256' | 'ES256' | 'ES384' | 'EdDSA')[] | null;
  /** How long the last good keys verify when they cannot be read again. Default 86400. */
  readonly max_key_age_s?: number | null;
  /** JSON pointers (RFC 6901) to the claims that say what a token becomes. */
  readonly claims?: FederationClaims | null;
  /**
   * Values of the permissions claim, each with the permissions that it grants; other values grant none.
   * Absent: the values are permissions.
   */
  readonly permission_map?: Readonly<Record<string, unknown>> | null;
  /** Permissions of every subject. */
  readonly permissions?: readonly string[] | null;
  /** The highest tier that its passports get. */
  readonly trust_tier?: 'L1' | 'L2' | 'L3' | null;
  /** Patterns of subjects whose tokens are accepted; `*` stands for any characters. Absent: all. */
  readonly subjects?: readonly string[] | null;
  /** Limits that apply to every decision. */
  readonly constraints?: PassportConstraints | null;
  /** Where its keys are published. Default for `oidc`: where its metadata says. */
  readonly jwks_uri?: string | null;
  /** Its public keys (RFC 7517), pasted. They are never fetched and never too old. */
  readonly jwks?: Readonly<Record<string, unknown>> | null;
  readonly wallet_id?: string | null;
  /** Whether the keys were pasted. */
  readonly is_pasted?: boolean | null;
  /** The keys that verify its tokens now. */
  readonly keys?: readonly {
    /** What its tokens name the key by; null if by nothing. */
    readonly kid: string | null;
    /** The one algorithm that the key verifies. */
    readonly algorithm: 'RS256' | 'PS256' | 'ES256' | 'ES384' | 'EdDSA';
  }[] | null;
  /** When the keys were last read where they are published; null if they were pasted. */
  readonly keys_read_at?: string | null;
  /** Why the keys could not be read the last time, or what of them was passed over; null: neither. */
  readonly keys_fault?: string | null;
}

export interface SubjectRevocation {
  /** The subject, as the claim has it that names subjects. */
  readonly subject: string;
  /** Reason, kept for the record. Default `unspecified`. */
  readonly reason?: string | null;
}

export interface TokenTrial {
  /** A token of the issuer. It is neither stored nor recorded. */
  readonly token: string;
  readonly gate_id?: string | null;
}

export interface TokenExplanation {
  /** Why a gate would block it; null if the token is a passport. */
  readonly reason: ReasonName | null;
  /** What was looked at, in order, up to the first fault. */
  readonly steps: readonly TokenStep[];
  /** The passport that it is a token of; null if it is none. */
  readonly passport: TokenPassport | null;
}

export interface TokenStep {
  /** A claim, or what else of the token was looked at. */
  readonly claim: string;
  /** What the token says there, cut after 500 characters; null if nothing. */
  readonly value: string | null;
  /** Whether it is as it has to be. */
  readonly is_good: boolean;
  /** What it becomes, or what is wrong with it. */
  readonly becomes: string;
}

export interface TokenPassport {
  readonly passport_id: string;
  readonly status: 'active' | 'suspended' | 'revoked' | 'expired';
  /** The suspensions that stand, oldest first; empty: none. */
  readonly suspended_by: readonly Suspension[];
  /**
   * The caller's own identifier for the agent. Unique among the passports of an account and mode that are
   * active or suspended.
   */
  readonly agent_id: string;
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner: string | null;
  /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
  readonly user: string | null;
  /** Who acts for whom: the nested `act` of the token (RFC 8693), who acts now first; at most 4. */
  readonly actors: readonly TokenDelegate[];
  /** What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area. */
  readonly permissions: readonly string[];
  /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
  readonly trust_tier: 'L1' | 'L2' | 'L3';
  /** When it expires; null if it never expires. */
  readonly expires_at: string;
}

export interface TokenDelegate {
  /** Who names it; null: the token does not say. */
  readonly iss: string | null;
  /** Who acts, as the token names it. */
  readonly sub: string;
}

export interface FederationClaims {
  /** Names the subject: one passport for each value. Default `/sub`. */
  readonly agent_id?: string | null;
  /** Names permissions: a list of texts, or texts with blanks between them. */
  readonly permissions?: string | null;
  /** Names the trust tier; a token without it gets L1, one with another form is no passport. */
  readonly trust_tier?: string | null;
  /** Names the owner. */
  readonly owner?: string | null;
  /**
   * Names the person for whom the agent acts. A token without it has none; one with another form is no
   * passport. Absent: no token has one.
   */
  readonly user?: string | null;
}

export interface PassportOwner {
  /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
  readonly owner: string;
  readonly status: 'active' | 'suspended';
  /** The suspensions that stand, oldest first; empty: none. */
  readonly suspended_by: readonly Suspension[];
  /** How many passports have this owner, whatever their status, or are suspended because they had. */
  readonly passports: number;
  /** False: no passport has this owner. A suspension binds all the same. */
  readonly seen: boolean;
}

export interface Suspension {
  /** Whose it is: `account`, by a person or a key, or the id of an issuer, by a security event. */
  readonly cause: string;
  /** When it began. */
  readonly since: string;
  /** Type of the security event; null: none. */
  readonly event: string | null;
  /** Of a passport that is suspended with this owner; absent: by itself. */
  readonly owner?: string;
}

export interface Reactivation {
  /** The issuer whose suspension ends. Default: the account's own ends. */
  readonly issuer_id?: string | null;
}

export interface IssuerPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Issuer[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface TemplateCreation {
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description?: string | null;
  /** Minimum trust tier of a passport. */
  readonly trust_level?: 'L1' | 'L2' | 'L3' | null;
  /** Limits that apply to every decision. */
  readonly constraints?: GateConstraints | null;
}

export interface Template {
  /** Id of the template, `tmpl_…`, or the name of a built-in one. */
  readonly template_id: string;
  /** Name, for people. */
  readonly name: string;
  /** Text for people. */
  readonly description: string | null;
  /** Minimum trust tier of a passport. */
  readonly trust_level: 'L1' | 'L2' | 'L3' | null;
  /** Limits that apply to every decision. */
  readonly constraints: GateConstraints;
  /** Whether the template comes with the service. */
  readonly built_in: boolean;
  readonly created_at: string;
}

export interface TemplatePage {
  /** The objects of this page, newest first. */
  readonly items: readonly Template[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface AuthzenVocabulary {
  /** Which gate decides about which resource. */
  readonly resources: readonly AuthzenResource[];
  /** Which permission an action is. */
  readonly actions: readonly AuthzenAction[];
}

export interface AuthzenResource {
  /** Type of the resource, in the words of your policy enforcement points. */
  readonly type: string;
  /** Id of the resource there; absent: every one of the type, which no search finds. */
  readonly id?: string | null;
  readonly gate_id: string;
  /** What is known of the resource. A property that an evaluation names counts in its place. */
  readonly properties?: Readonly<Record<string, unknown>> | null;
}

export interface AuthzenAction {
  /** Type of the resources that have the action. */
  readonly resource_type: string;
  /** Name of the action. */
  readonly name: string;
  /** The permission that the action is. */
  readonly permission_key: string;
  /** It is so only where the evaluation has all of these properties. */
  readonly when?: {
    /** Properties of the action. */
    readonly action?: Readonly<Record<string, unknown>> | null;
    /** Properties of the resource. */
    readonly resource?: Readonly<Record<string, unknown>> | null;
  } | null;
}

export interface RetentionUpdate {
  /**
   * Records of months that ended more days ago leave the database with the next archive. Null: as long as
   * the operator keeps records.
   */
  readonly days: number | null;
  /**
   * Values that decisions read are removed after so many days. Null: with their records. Absent: as it
   * is.
   */
  readonly facts_days?: number | null;
  /**
   * Records of the passports, gates and account of the caller that arrived before may be in archives, and
   * lists lack them; null: none are.
   */
  readonly archived_before?: string | null;
}

export interface Retention {
  /**
   * Records of months that ended more days ago leave the database with the next archive. Null: as long as
   * the operator keeps records.
   */
  readonly days: number | null;
  /**
   * Values that decisions read are removed after so many days. Null: with their records. Absent: as it
   * is.
   */
  readonly facts_days: number | null;
  /**
   * Records of the passports, gates and account of the caller that arrived before may be in archives, and
   * lists lack them; null: none are.
   */
  readonly archived_before: string | null;
}

export interface WhoAmI {
  readonly account_id: string;
  /** `live` or `test`: two environments that are kept apart. */
  readonly mode: 'live' | 'test';
  /** Who calls. */
  readonly actor: Actor;
  /** What the key may do. */
  readonly scopes: readonly (ScopeName | 'admin:*' | 'enforcement:check' | 'enforcement:delegate' | 'attestations:read' | 'audit:read' | 'approvals:read' | 'approvals:resolve' | 'webhooks:manage' | 'keys:manage' | 'users:manage' | 'sidecars:connect' | 'wallets:read' | 'wallets:manage')[];
  /** When the key ends; null: never. */
  readonly expires_at: string | null;
}

export interface ApiKeyCreation {
  /** Name, for people. */
  readonly name: string;
  /** What the key may do. */
  readonly scopes: readonly string[];
  /** When it expires; null if it never expires. */
  readonly expires_at?: string | null;
  /** `live` or `test`: two environments that are kept apart. */
  readonly mode?: 'live' | 'test' | null;
}

export interface Roll {
  /** How long the old one stays valid beside the new one, in seconds. Default 0. */
  readonly overlap_s?: number | null;
}

export interface ApiKey {
  /** Id of the API key, `key_…`. */
  readonly key_id: string;
  /** Name, for people. */
  readonly name: string;
  /** What the key may do. */
  readonly scopes: readonly (ScopeName | 'admin:*' | 'enforcement:check' | 'enforcement:delegate' | 'attestations:read' | 'audit:read' | 'approvals:read' | 'approvals:resolve' | 'webhooks:manage' | 'keys:manage' | 'users:manage' | 'sidecars:connect' | 'wallets:read' | 'wallets:manage')[];
  /** `live` or `test`: two environments that are kept apart. */
  readonly mode: 'live' | 'test';
  /** First 12 characters of the key, to recognise it by. */
  readonly prefix: string;
  /** Last 4 characters of the key. */
  readonly last4: string;
  readonly created_at: string;
  /** When it expires; null if it never expires. */
  readonly expires_at: string | null;
  /** When it was last used; null if never. */
  readonly last_used_at: string | null;
}

export interface NewApiKey {
  /** Id of the API key, `key_…`. */
  readonly key_id: string;
  /** Name, for people. */
  readonly name: string;
  /** What the key may do. */
  readonly scopes: readonly (ScopeName | 'admin:*' | 'enforcement:check' | 'enforcement:delegate' | 'attestations:read' | 'audit:read' | 'approvals:read' | 'approvals:resolve' | 'webhooks:manage' | 'keys:manage' | 'users:manage' | 'sidecars:connect' | 'wallets:read' | 'wallets:manage')[];
  /** `live` or `test`: two environments that are kept apart. */
  readonly mode: 'live' | 'test';
  /** First 12 characters of the key, to recognise it by. */
  readonly prefix: string;
  /** Last 4 characters of the key. */
  readonly last4: string;
  readonly created_at: string;
  /** When it expires; null if it never expires. */
  readonly expires_at: string | null;
  /** When it was last used; null if never. */
  readonly last_used_at: string | null;
  /** The API key itself. Shown this once; only its hash is kept. */
  readonly key?: string;
}

export interface ApiKeyPage {
  /** The objects of this page, newest first. */
  readonly items: readonly ApiKey[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface ApiKeyDeletion {
  /** Id of the API key, `key_…`. */
  readonly key_id: string;
  /** Whether it is deleted. */
  readonly deleted: true;
  /** When it was deleted. */
  readonly deleted_at: string;
}

export interface AccountCreation {
  /** Name, for people. */
  readonly name: string;
  /** The plan of the account; determines its limits. */
  readonly plan: 'free' | 'pro' | 'teams' | 'enterprise';
  /**
   * Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
   * enterprise plan can have; null if unlimited.
   */
  readonly limits?: {
    /** Requests in a UTC minute. */
    readonly requests_per_minute?: number | null;
    /** Requests in a UTC day. */
    readonly requests_per_day?: number | null;
  } | null;
}

export interface AccountUpdate {
  /** Name, for people. */
  readonly name?: string | null;
  /** The plan of the account; determines its limits. */
  readonly plan?: 'free' | 'pro' | 'teams' | 'enterprise' | null;
  readonly status?: 'active' | 'suspended' | null;
  /**
   * Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
   * enterprise plan can have; null if unlimited.
   */
  readonly limits?: {
    /** Requests in a UTC minute. */
    readonly requests_per_minute?: number | null;
    /** Requests in a UTC day. */
    readonly requests_per_day?: number | null;
  } | null;
  readonly account_id?: string | null;
  readonly created_at?: string | null;
}

export interface Account {
  readonly account_id: string;
  readonly created_at: string;
  /** Name, for people. */
  readonly name: string;
  /** The plan of the account; determines its limits. */
  readonly plan: 'free' | 'pro' | 'teams' | 'enterprise';
  readonly status: 'active' | 'suspended';
  /**
   * Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
   * enterprise plan can have; null if unlimited.
   */
  readonly limits: {
    /** Requests in a UTC minute. */
    readonly requests_per_minute: number | null;
    /** Requests in a UTC day. */
    readonly requests_per_day: number | null;
  } | null;
}

export interface NewAccount {
  readonly account_id: string;
  readonly created_at: string;
  /** Name, for people. */
  readonly name: string;
  /** The plan of the account; determines its limits. */
  readonly plan: 'free' | 'pro' | 'teams' | 'enterprise';
  readonly status: 'active' | 'suspended';
  /**
   * Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the
   * enterprise plan can have; null if unlimited.
   */
  readonly limits: {
    /** Requests in a UTC minute. */
    readonly requests_per_minute: number | null;
    /** Requests in a UTC day. */
    readonly requests_per_day: number | null;
  } | null;
  /** The first key of the account. */
  readonly api_key: NewApiKey;
}

export interface AccountPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Account[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface ChannelCreation {
  /** Name, for people. */
  readonly name: string;
  /**
   * `slack`: an incoming webhook of Slack or a compatible service; `email`; `webhook`: the signed event
   * as JSON.
   */
  readonly kind: 'slack' | 'email' | 'webhook';
  /** URL of the webhook, or one e-mail address. */
  readonly target: string;
  /** The gate whose approvals it is told of. Default: all without channels of their own. */
  readonly gate_id?: string | null;
  /** The channel is told of approvals that are still pending after so many seconds. Default: 0. */
  readonly after_s?: number | null;
  /** What it is told of: that a request waits, always, and how that ended. Default: both. */
  readonly events?: readonly ('approval.requested' | 'approval.resolved')[] | null;
}

export interface ChannelUpdate {
  /** Name, for people. */
  readonly name?: string | null;
  /** Another URL or e-mail address. As `GET` shows it: the one that is there. */
  readonly target?: string | null;
  /** The channel is told of approvals that are still pending after so many seconds. Default: 0. */
  readonly after_s?: number | null;
  /** What it is told of: that a request waits, always, and how that ended. */
  readonly events?: readonly ('approval.requested' | 'approval.resolved')[] | null;
  readonly status?: 'enabled' | 'disabled' | null;
  readonly channel_id?: string | null;
  /** What kind of channel it is. */
  readonly kind?: 'slack' | 'email' | 'webhook' | null;
  /** The gate whose approvals it is told of; null: of all without channels of their own. */
  readonly gate_id?: string | null;
  readonly created_at?: string | null;
  /** `sha256:` and the hash of the target: shows whether two targets are the same. */
  readonly target_hash?: string | null;
  /**
   * Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
   * days; `unread`: nobody fetched for an hour; null if it is enabled.
   */
  readonly disabled_reason?: 'owner' | 'gone' | 'failing' | null;
  /** When the first attempt after the last success failed; null if none failed. */
  readonly failing_since?: string | null;
  /** How many attempts have failed since the last success. */
  readonly failures?: number | null;
  /** The last failure; null if the last attempt succeeded, or there was none. */
  readonly last_error?: ChannelFailure | null;
  /** When a message was last sent; null: never. */
  readonly last_sent_at?: string | null;
  /** When it was last changed. */
  readonly updated_at?: string | null;
}

export interface Channel {
  readonly channel_id: string;
  /** What kind of channel it is. */
  readonly kind: 'slack' | 'email' | 'webhook';
  /** The gate whose approvals it is told of; null: of all without channels of their own. */
  readonly gate_id: string | null;
  readonly created_at: string;
  /** Name, for people. */
  readonly name: string;
  /** E-mail address, or host and last characters of the URL. */
  readonly target: string;
  /** The channel is told of approvals that are still pending after so many seconds. Default: 0. */
  readonly after_s: number;
  /** What it is told of. */
  readonly events: readonly ('approval.requested' | 'approval.resolved')[];
  readonly status: 'enabled' | 'disabled';
  /** `sha256:` and the hash of the target: shows whether two targets are the same. */
  readonly target_hash: string;
  /**
   * Why nothing is sent: `owner` disabled it; `gone`: its address is no more; `failing`: no success for
   * three days; null if it is enabled.
   */
  readonly disabled_reason: 'owner' | 'gone' | 'failing' | null;
  /** When the first attempt after the last success failed; null if none failed. */
  readonly failing_since: string | null;
  /** How many attempts have failed since the last success. */
  readonly failures: number;
  /** The last failure; null if the last attempt succeeded, or there was none. */
  readonly last_error: ChannelFailure | null;
  /** When a message was last sent; null: never. */
  readonly last_sent_at: string | null;
  /** When it was last changed. */
  readonly updated_at: string;
}

export interface NewChannel {
  readonly channel_id: string;
  /** What kind of channel it is. */
  readonly kind: 'slack' | 'email' | 'webhook';
  /** The gate whose approvals it is told of; null: of all without channels of their own. */
  readonly gate_id: string | null;
  readonly created_at: string;
  /** Name, for people. */
  readonly name: string;
  /** E-mail address, or host and last characters of the URL. */
  readonly target: string;
  /** The channel is told of approvals that are still pending after so many seconds. Default: 0. */
  readonly after_s: number;
  /** What it is told of. */
  readonly events: readonly ('approval.requested' | 'approval.resolved')[];
  readonly status: 'enabled' | 'disabled';
  /** `sha256:` and the hash of the target: shows whether two targets are the same. */
  readonly target_hash: string;
  /** Null: it is enabled. */
  readonly disabled_reason: 'owner' | 'gone' | 'failing' | null;
  /** When the first attempt after the last success failed; null if none failed. */
  readonly failing_since: string | null;
  /** How many attempts have failed since the last success. */
  readonly failures: number;
  /** The last failure; null if the last attempt succeeded, or there was none. */
  readonly last_error: ChannelFailure | null;
  /** When a message was last sent; null: never. */
  readonly last_sent_at: string | null;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Of the kind `webhook`: secret that signs its messages, `whsec_` and base64. Shown only once; stored
   * encrypted.
   */
  readonly secret?: string;
}

export interface ChannelPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Channel[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface ChannelDeletion {
  readonly channel_id: string;
  /** Whether it is deleted. */
  readonly deleted: true;
  /** When it was deleted. */
  readonly deleted_at: string;
}

export interface ChannelFailure {
  /** Why it failed: see docs/channels.md. */
  readonly code: DeliveryFault;
  /** What the other side said, with everything that looks like a secret removed. */
  readonly detail: string;
  /** When it failed. */
  readonly at: string;
}

export interface ChannelTest {
  readonly channel_id: string;
  /** Whether the message was sent. */
  readonly sent: boolean;
  /** How long it took, in milliseconds. */
  readonly latency_ms: number;
  /** Why it was not sent; null if it was. */
  readonly error: {
    /** For programs to branch on; a closed list, see docs/errors.md. */
    readonly code: DeliveryFault;
    /** The reason as a sentence. */
    readonly detail: string;
  } | null;
}

export interface WebhookCreation {
  /** Where events are sent, over https; null if its deliveries are fetched instead. */
  readonly url: string | null;
  /** The events that it subscribes to. */
  readonly events: readonly EventName[];
  /** `standard`, or `cloudevents`: CloudEvents 1.0 in structured mode. Default: `standard`. */
  readonly format?: 'standard' | 'cloudevents' | null;
  /** Text for people. */
  readonly description?: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>> | null;
}

export interface WebhookUpdate {
  /** Where events are sent, over https. */
  readonly url?: string | null;
  /** The events that it subscribes to. */
  readonly events?: readonly EventName[] | null;
  /** What is sent from now on, also what waits. */
  readonly format?: 'standard' | 'cloudevents' | null;
  /** Text for people. */
  readonly description?: string | null;
  /** Replaces all labels. */
  readonly labels?: Readonly<Record<string, unknown>> | null;
  readonly status?: 'enabled' | 'disabled' | null;
  readonly webhook_id?: string | null;
  readonly created_at?: string | null;
  /** When it was last changed. */
  readonly updated_at?: string | null;
  /**
   * Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
   * days; `unread`: nobody fetched for an hour; null if it is enabled.
   */
  readonly disabled_reason?: 'owner' | 'gone' | 'failing' | 'unread' | null;
  /** When the first attempt after the last success failed; null if none failed. */
  readonly failing_since?: string | null;
}

export interface WebhookTest {
  /** The event to send. Default: the first that the webhook subscribes to. */
  readonly event?: EventName | null;
}

export interface WebhookRecovery {
  /** Deliveries created at or after this time. */
  readonly since: string;
}

export interface Webhook {
  readonly webhook_id: string;
  readonly created_at: string;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
   * days; `unread`: nobody fetched for an hour; null if it is enabled.
   */
  readonly disabled_reason: 'owner' | 'gone' | 'failing' | 'unread' | null;
  /** When the first attempt after the last success failed; null if none failed. */
  readonly failing_since: string | null;
  /** Where events are sent, over https; null if its deliveries are fetched instead. */
  readonly url: string | null;
  /** The events that it subscribes to. */
  readonly events: readonly EventName[];
  /** What is sent: `standard`, or `cloudevents` for CloudEvents 1.0 in structured mode. */
  readonly format: 'standard' | 'cloudevents';
  /** Text for people. */
  readonly description: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  readonly status: 'enabled' | 'disabled';
}

export interface NewWebhook {
  readonly webhook_id: string;
  readonly created_at: string;
  /** When it was last changed. */
  readonly updated_at: string;
  /**
   * Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three
   * days; `unread`: nobody fetched for an hour; null if it is enabled.
   */
  readonly disabled_reason: 'owner' | 'gone' | 'failing' | 'unread' | null;
  /** When the first attempt after the last success failed; null if none failed. */
  readonly failing_since: string | null;
  /** Where events are sent, over https; null if its deliveries are fetched instead. */
  readonly url: string | null;
  /** The events that it subscribes to. */
  readonly events: readonly EventName[];
  /** What is sent: `standard`, or `cloudevents` for CloudEvents 1.0 in structured mode. */
  readonly format: 'standard' | 'cloudevents';
  /** Text for people. */
  readonly description: string | null;
  /**
   * Names of your own, up to 16, each with a text of up to 63 characters, such as `team`. No decision
   * reads them. Absent: none.
   */
  readonly labels?: Readonly<Record<string, unknown>>;
  readonly status: 'enabled' | 'disabled';
  /** Secret that signs deliveries: `whsec_` and base64. Shown only once; stored encrypted. */
  readonly secret?: string;
}

export interface WebhookPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Webhook[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface WebhookDeletion {
  readonly webhook_id: string;
  /** Whether it is deleted. */
  readonly deleted: true;
  /** When it was deleted. */
  readonly deleted_at: string;
}

export interface WebhookRecovered {
  /** How many deliveries are sent again. */
  readonly requeued: number;
  /** Whether there are more; if so, call again. */
  readonly has_more: boolean;
}

export interface Delivery {
  readonly delivery_id: string;
  readonly webhook_id: string;
  /** Id of the event, `evt_…`: the `webhook-id` header, the same in every attempt and at every webhook. */
  readonly event_id: string;
  /** What happened. */
  readonly event: EventName;
  /** `pending`: an attempt is due or in flight; `failed`: given up until it is sent again. */
  readonly status: 'pending' | 'succeeded' | 'failed';
  /** The body that is sent. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** Number of attempts. */
  readonly attempt_count: number;
  /** The newest attempts, the last one first. */
  readonly attempts: readonly {
    /** Number of the attempt, from 1. */
    readonly attempt: number;
    /** When the attempt began. */
    readonly started_at: string;
    /** How long it took, in milliseconds. */
    readonly latency_ms: number;
    /** HTTP status of the answer; null if there was none. */
    readonly status_code: number | null;
    /** Why there was no answer; null if there was one. */
    readonly error: string | null;
    /**
     * The first KiB of the answer, with everything that looks like a secret removed; null if there was
     * none.
     */
    readonly response: string | null;
  }[];
  /** When the next attempt is due; null if none is. */
  readonly next_attempt_at: string | null;
  readonly created_at: string;
}

export interface DeliveryPage {
  /** The objects of this page, newest first. */
  readonly items: readonly Delivery[];
  readonly total: number;
  readonly limit: number;
  readonly offset: number;
  /** `cursor` of the next page; null on the last page. */
  readonly next_cursor: string | null;
}

export interface PassportVerifiedEvent {
  /** What happened. */
  readonly event: 'passport.verified';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    readonly passport_id: string;
    /**
     * The caller's own identifier for the agent. Unique among the passports of an account and mode that
     * are active or suspended.
     */
    readonly agent_id: string | null;
    readonly gate_id: string | null;
    /** What was decided. */
    readonly decision: 'allow';
    /** Reason code; null for a PERMIT. */
    readonly reason: null;
    /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
    readonly attestation_id: string;
  };
}

export interface PassportDeniedEvent {
  /** What happened. */
  readonly event: 'passport.denied';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    readonly passport_id: string | null;
    /**
     * The caller's own identifier for the agent. Unique among the passports of an account and mode that
     * are active or suspended.
     */
    readonly agent_id: string | null;
    readonly gate_id: string | null;
    /** What was decided. */
    readonly decision: 'block';
    /** Reason code; null for a PERMIT. */
    readonly reason: ReasonName;
    /** Id of the record of this decision, `att_…`; null for a SUSPEND. */
    readonly attestation_id: string;
  };
}

export interface PassportRevokedEvent {
  /** What happened. */
  readonly event: 'passport.revoked';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    readonly passport_id: string;
    /**
     * The caller's own identifier for the agent. Unique among the passports of an account and mode that
     * are active or suspended.
     */
    readonly agent_id: string;
    /** When the passport was revoked; null if it is not revoked. */
    readonly revoked_at: string;
    /** Reason, kept for the record. */
    readonly reason: string;
  };
}

export interface GateCreatedEvent {
  /** What happened. */
  readonly event: 'gate.created';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    readonly gate_id: string;
    /** Name, for people. */
    readonly name: string;
    /** Minimum trust tier of a passport. */
    readonly trust_level: 'L1' | 'L2' | 'L3';
    /** URL of the gate itself, for proxies. */
    readonly gate_url: string;
  };
}

export interface ShadowEndedEvent {
  /** What happened. */
  readonly event: 'shadow.ended';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    readonly gate_id: string;
    /** Hash of the policy that decided; null without a gate, or if the policy is not on record. */
    readonly policy_hash: string;
    /** Hash of the live policy that it was made of. */
    readonly base_policy_hash: string;
    /** Reason code; null for a PERMIT. */
    readonly reason: 'policy_changed' | 'gate_deleted' | 'deleted' | 'replaced' | 'promoted';
  };
}

export interface SpendLimitApproachingEvent {
  /** What happened. */
  readonly event: 'spend_limit.approaching';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    readonly gate_id: string | null;
    readonly passport_id: string | null;
    readonly wallet_id: string | null;
    /** Which window of the limit: the UTC day or the UTC month. */
    readonly window: 'hour' | 'day' | 'month' | 'total';
    /** The limit, in USD. */
    readonly limit_usd: number;
    /** What was spent in this window, in USD. */
    readonly spent_usd: number;
    /** `spent_usd` of `limit_usd`, cut to four decimals. */
    readonly fraction: number;
  };
}

export interface ApprovalRequestedEvent {
  /** What happened. */
  readonly event: 'approval.requested';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: Approval;
}

export interface ApprovalResolvedEvent {
  /** What happened. */
  readonly event: 'approval.resolved';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: Approval;
}

export interface HoldExpiredEvent {
  /** What happened. */
  readonly event: 'hold.expired';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: PermitOutcome;
}

export interface OutcomeRefusedEvent {
  /** What happened. */
  readonly event: 'outcome.refused';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: ReportedOutcome;
}

export interface McpPinChangedEvent {
  /** What happened. */
  readonly event: 'mcp_pin.changed';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: McpPinListItem;
}

export interface HistoryRegressedEvent {
  /** What happened. */
  readonly event: 'history.regressed';
  /** When it happened. */
  readonly timestamp: string;
  /** Details of the event. */
  readonly data: {
    /** Name of the history of the database. */
    readonly generation: string;
    /** What it lacks, as far as sidecars have shown; null: nothing. */
    readonly missing: {
      /** How many revisions of feeds. */
      readonly changes: number;
      /** The chains in ascending order of `chain_id`, each with its records; at the end, how many. */
      readonly chains: number;
      /** How many records there are in all. */
      readonly records: number;
      /** The entries of this page. */
      readonly entries: number;
    };
  };
}

export interface Jwks {
  /** Name of the history of the database. */
  readonly generation?: string;
  /** All keys, whatever their purpose. */
  readonly keys: readonly {
    /** Key type (RFC 8037). */
    readonly kty: 'OKP';
    /** Curve (RFC 8037). */
    readonly crv: 'Ed25519';
    /** Algorithm (RFC 7518). */
    readonly alg: 'EdDSA';
    /** What the key is for (RFC 7517). */
    readonly use: 'sig';
    /** RFC 7638 thumbprint of the key. */
    readonly kid: string;
    /** What the key signs. It verifies nothing else. */
    readonly purpose: 'passport' | 'catalog' | 'attestation' | 'log';
    /** base64url of the 32 bytes of the public key. */
    readonly x: string;
    /** When the key starts to sign, in Unix seconds. */
    readonly nbf: number;
    /** When the key stops signing; null if it signs now, or will. */
    readonly retired_at: string | null;
    /** Whether somebody else may have the private key: then its signatures prove nothing. */
    readonly compromised: boolean;
  }[];
}

export interface RevokedSidecarKeys {
  /** Oldest first. */
  readonly revoked: readonly RevokedSidecarKey[];
}

export interface SidecarKeyRevocation {
  /** `kid` of the certificate in its receipts. */
  readonly kid: string;
}

export interface RevokedSidecarKey {
  /** `kid` of the certificate in its receipts. */
  readonly kid: string;
  /** When it was revoked. Receipts from before prove nothing either. */
  readonly revoked_at: string;
}

export interface ReceiptShowing {
  /** The member `receipt` of an answer. */
  readonly receipt: Receipt;
}

export interface ReceiptReport {
  /** Id of the record. */
  readonly attestation_id: string;
  /**
   * `on_record`: it is as the receipt says. `awaited`: it is promised for later. `archived`: an archive
   * may have it. `missing`, `contradicted`: it is not there, or says something else.
   */
  readonly state: 'on_record' | 'awaited' | 'archived' | 'missing' | 'contradicted';
  /** `regressed`: the database lacks what it told some sidecar before (docs/operate/disaster.md). */
  readonly history: 'whole' | 'regressed';
}

export interface KeyRotationRequest {
  /** What the key signs. It verifies nothing else. */
  readonly purpose: 'passport' | 'catalog' | 'attestation' | 'sync' | 'log';
  /** Whether somebody else may have the private key: then its signatures prove nothing. */
  readonly compromised?: boolean | null;
  /** RFC 7638 thumbprint of the key. */
  readonly kid?: string | null;
}

export interface KeyRotation {
  /** What the key signs. It verifies nothing else. */
  readonly purpose: 'passport' | 'catalog' | 'attestation' | 'sync' | 'log';
  /** RFC 7638 thumbprint of the key. */
  readonly kid: string;
  /** When the next key starts to sign. */
  readonly not_before: string;
  /** The key that it replaces. */
  readonly previous: {
    /** RFC 7638 thumbprint of the key. */
    readonly kid: string;
    /** When the key stops signing; null if it signs now, or will. */
    readonly retired_at: string;
    /** Whether somebody else may have the private key: then its signatures prove nothing. */
    readonly compromised: boolean;
  };
}

export interface Readiness {
  readonly status: 'ready' | 'not_ready';
  /** Whether this process is about to stop. It still answers; send it no new requests. */
  readonly draining: boolean;
  /** Whether PostgreSQL can be reached and is migrated. */
  readonly database: 'reachable' | 'unreachable' | 'not_migrated';
  /** How many connections to PostgreSQL this program may open: `DATABASE_CONNECTIONS`. */
  readonly database_connections_max: number;
  /** How many connections PostgreSQL has refused since the start, because it had no more. */
  readonly database_connections_refused: number;
  /** The replica of `DATABASE_READ_URL`; null: none is set. */
  readonly replica: {
    /** False: lists, exports, discovery and statistics are read at the primary. */
    readonly in_use: boolean;
    /** Why it is not in use; null: it is. */
    readonly reason: 'away' | 'behind' | 'not_following' | 'another_cluster' | null;
    /** How old what it answers may be, in milliseconds; null: unknown. */
    readonly staleness_ms: number | null;
  } | null;
  /**
   * Whether this process appends to the chains of records: working, or stopped by an internal error until
   * it is restarted.
   */
  readonly appending: 'working' | 'stopped';
  /** Whether changes are pushed to the sidecars; without it they poll. */
  readonly push: 'connected' | 'disconnected';
  /** How many pushed messages could not be sent. */
  readonly push_lost: number;
  /**
   * How many rows of `signing_keys` nobody with MASTER_KEY wrote. They are published nowhere; the log
   * names them.
   */
  readonly bad_signing_keys: number;
  /**
   * `settled`: one master key seals everything. `changing`: secrets are sealed with a new one; `waiting`:
   * not all control planes have it yet. `missing`: one is in use that this program was not given.
   */
  readonly master_key: 'settled' | 'waiting' | 'changing' | 'missing';
  /** Whether the database has all that sidecars were told. */
  readonly history: {
    /**
     * Of the history: `regressed`: the database lacks something; only reads, decisions and revocations
     * are served. Of the log: `unconfirmed` by its witnesses, or `regressed` with the history: nothing is
     * signed.
     */
    readonly state: 'whole' | 'regressed';
    /** What it lacks, as far as sidecars have shown; null: nothing. */
    readonly missing: {
      /** How many revisions of feeds. */
      readonly changes: number;
      /** The chains in ascending order of `chain_id`, each with its records; at the end, how many. */
      readonly chains: number;
      /** How many records there are in all. */
      readonly records: number;
      /** How many entries of the transparency log, as far as its witnesses have shown. */
      readonly entries: number;
    } | null;
  };
  /** The transparency log, as this program knows it (docs/log.md). */
  readonly log: {
    /**
     * Of the history: `regressed`: the database lacks something; only reads, decisions and revocations
     * are served. Of the log: `unconfirmed` by its witnesses, or `regressed` with the history: nothing is
     * signed.
     */
    readonly state: 'working' | 'unconfirmed' | 'regressed';
    /** The origin line of its checkpoints; null: it has not begun. */
    readonly origin: string | null;
    /** Entries in the newest checkpoint; of a witness: in the newest that it cosigned. */
    readonly size: number;
    /** When the newest checkpoint was published; null: none yet. */
    readonly published_at: string | null;
    /** Entries in the newest checkpoint that the quorum of its witnesses cosigned. */
    readonly witnessed_size: number;
    /** When that one was published; null: none yet. */
    readonly witnessed_at: string | null;
    /** The witnesses of `LOG_WITNESSES`, as the writer of the log heard from them last. */
    readonly witnesses: readonly {
      /** Name of the witness in the policy. */
      readonly name: string;
      /** Why it has not cosigned the newest checkpoint; null: it has. */
      readonly fault: string | null;
      /** Entries in the newest checkpoint; of a witness: in the newest that it cosigned. */
      readonly size: number;
      /** When it cosigned last; null: never. */
      readonly cosigned_at: string | null;
    }[];
  };
  /** The sidecars of this service; null if unknown. */
  readonly sidecars: {
    /** How many of them are connected. */
    readonly connected: number;
    /** Largest clock offset of any of them, in milliseconds. */
    readonly clock_offset_ms_max: number;
  } | null;
}

export interface PassportsResource {
  /** Issue a passport without a person present. Needs a key with the scope `passports:issue`. */
  issueUnattended(body: UnattendedIssue | MachineIssue, options?: CreateOptions): Promise<IssuedPassport>;
  /** Issue a passport. Needs a key with the scope `passports:issue`. */
  issue(body: ReferenceIssue | MachineIssue | UnattendedIssue, options?: CreateOptions): Promise<IssuedPassport>;
  /** List passports, newest first. Needs a key with the scope `passports:read`. */
  list(query?: {
    /**
     * Of passports: only those whose `agent_id` contains this, in letters of any case. Of records: only
     * those of passports that the account of the caller has issued to exactly this agent.
     */
    readonly agent_id?: string;
    /** Only passports whose `agent_name` contains this, in letters of any case. */
    readonly agent_name?: string;
    readonly issuer_id?: string;
    /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
    readonly owner?: string;
    /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
    readonly user?: string;
    readonly status?: 'active' | 'suspended' | 'revoked' | 'expired';
    /** How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer. */
    readonly trust_tier?: 'L1' | 'L2' | 'L3';
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<PassportListItem, PassportPage>;
  /** Get a passport. Needs a key with the scope `passports:read`. */
  get(id: string, options?: CallOptions): Promise<Passport>;
  /** End a suspension of a passport. Needs a key with the scope `passports:revoke`. */
  reactivate(id: string, body?: Reactivation, options?: CallOptions): Promise<Passport>;
  /** Revoke a passport for ever. Needs a key with the scope `passports:revoke`. */
  revoke(id: string, body?: PassportRevocation, query?: {
    /**
     * How long the answer may wait, in milliseconds: for all connected sidecars to apply the change, or
     * for the approval to be answered.
     */
    readonly wait_ms?: number;
  }, options?: CallOptions): Promise<Revocation>;
  /** Suspend a passport. Needs a key with the scope `passports:revoke`. */
  suspend(id: string, body?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<Passport>;
  /** Ask whether a passport is valid now. Needs a key with the scope `passports:read`. */
  verify(id: string, options?: CallOptions): Promise<Verification>;
  /** Put a passport into a wallet, or out of any. Needs a key with the scope `wallets:manage`. */
  setWallet(id: string, body: PassportWallet, options?: CallOptions): Promise<Passport>;
}

export interface OwnersResource {
  /** End a suspension of an owner. Needs a key with the scope `passports:revoke`. */
  reactivate(owner: string, body?: Reactivation, options?: CallOptions): Promise<PassportOwner>;
  /** Suspend all passports of an owner. Needs a key with the scope `passports:revoke`. */
  suspend(owner: string, body?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<PassportOwner>;
}

export interface GatesResource {
  /** Get a backtest, with its report once it is done. Needs a key with the scope `gates:read`. */
  getBacktest(id: string, options?: CallOptions): Promise<Backtest>;
  /** Cancel a backtest. Needs a key with the scope `gates:read`. */
  cancelBacktest(id: string, options?: CallOptions): Promise<Backtest>;
  /** Check a condition without writing it. Needs a key with the scope `gates:read`. */
  checkCondition(body: ConditionCheckRequest, options?: CallOptions): Promise<ConditionCheck>;
  /** Find gates by a capability, with their prices. Public: needs no key. */
  discover(query: {
    /** A permission key, a bare area, or a category. */
    readonly capability: string;
    /** Only what costs at most this. */
    readonly max_price_cents?: number;
    /** Only what promises at least this uptime, in basis points (10000 is 100 %). */
    readonly min_uptime_bp?: number;
    /** Only what promises at most this response time. */
    readonly max_response_time_ms?: number;
    /** Only what is priced by this model. */
    readonly pricing_model?: 'per_call' | 'per_minute' | 'subscription';
    /** Currency of the price, such as USD. */
    readonly currency?: string;
    /** Only gates of at least this trust level. */
    readonly min_security_profile?: 'L1' | 'L2' | 'L3';
    /** Sort order of the results; those without a value come last. */
    readonly sort?: 'price_asc' | 'price_desc' | 'uptime_desc' | 'response_asc';
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Discovery['results'][number], Discovery>;
  /** Create a gate. Needs a key with the scope `gates:create`. */
  create(body: GateCreation, options?: CreateOptions & { readonly ifNoneMatch?: string }): Promise<NewGate>;
  /** List gates, newest first. Needs a key with the scope `gates:read`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<GateListItem, GatePage>;
  /** Get a gate with its constraints and counts. Needs a key with the scope `gates:read`. */
  get(id: string, options?: CallOptions): Promise<GateWithStats>;
  /** Change a gate. Needs a key with the scope `gates:update`. */
  update(id: string, body?: GatePatch, options?: CallOptions & { readonly ifMatch?: string }): Promise<Gate>;
  /** Delete a gate. Needs a key with the scope `gates:manage`. */
  delete(id: string, options?: CallOptions & { readonly ifMatch?: string }): Promise<GateDeletion>;
  /** See what a policy would have decided. Needs a key with the scope `gates:read`. */
  startBacktest(id: string, body?: BacktestRequest, options?: CallOptions): Promise<Backtest>;
  /** List the policies that a gate has had, newest first. Needs a key with the scope `gates:read`. */
  listPolicies(id: string, query?: {
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<GatePolicy, GatePolicyPage>;
  /** Try a policy beside the one that a gate has. Needs a key with the scope `gates:update`. */
  putShadow(id: string, body?: ShadowPatch, options?: CallOptions): Promise<Shadow>;
  /** Get the policy that a gate tries. Needs a key with the scope `gates:read`. */
  getShadow(id: string, options?: CallOptions): Promise<Shadow>;
  /** End the shadow of a gate. Needs a key with the scope `gates:update`. */
  deleteShadow(id: string, options?: CallOptions): Promise<ShadowDeletion>;
  /** Make the shadow of a gate its policy. Needs a key with the scope `gates:update`. */
  promoteShadow(id: string, options?: CallOptions & { readonly ifMatch?: string }): Promise<Gate>;
  /** See what the shadow of a gate would have decided. Needs a key with the scope `gates:read`. */
  getShadowReport(id: string, query?: {
    /** Only records from this time on. */
    readonly since?: string;
    /** Only records before this time. */
    readonly until?: string;
  }, options?: CallOptions): Promise<Difference>;
  /** Ask what a gate would decide. Needs a key with the scope `gates:read`. */
  test(id: string, body: GateTestRequest, options?: CallOptions): Promise<GateTest>;
  /** Get a policy by its hash. Needs a key with the scope `gates:read`. */
  getPolicy(hash: string, options?: CallOptions): Promise<Policy>;
}

export interface CatalogsResource {
  /** Publish the next version of a gate's catalog. Needs a key with the scope `gates:update`. */
  publish(id: string, body: CatalogPublication, options?: CreateOptions): Promise<Catalog>;
  /** Get a catalog: the newest, or the given version. Public: needs no key. */
  get(id: string, query?: {
    /** Version of the catalog, from 1. */
    readonly version?: number;
  }, options?: CallOptions & { readonly ifNoneMatch?: string }): Promise<Catalog | null>;
}

export interface DecisionsResource {
  /** Decide without a gate in the URL. Needs a key with the scope `enforcement:check`. */
  enforce(body: CheckRequest, options?: CallOptions): Promise<ServiceDecision>;
  /**
   * Decide whether this passport may do this at this gate, now. Needs a key with the scope
   * `enforcement:check`.
   */
  check(id: string, body: CheckRequest, options?: CallOptions): Promise<ServiceDecision>;
  /** Decide many requests at one gate in one call. Needs a key with the scope `enforcement:check`. */
  checkBatch(id: string, body: CheckBatchRequest, options?: CallOptions): Promise<CheckBatch>;
}

export interface AuthzenResource {
  /** Get the AuthZEN vocabulary of the account. Needs a key with the scope `gates:read`. */
  getVocabulary(options?: CallOptions): Promise<AuthzenVocabulary>;
  /** Replace the AuthZEN vocabulary of the account. Needs a key with the scope `gates:update`. */
  setVocabulary(body: AuthzenVocabulary, options?: CallOptions): Promise<AuthzenVocabulary>;
}

export interface ApprovalsResource {
  /** List approvals at your gates, newest first. Needs a key with the scope `approvals:read`. */
  list(query?: {
    readonly status?: 'pending' | 'approved' | 'denied' | 'expired' | 'used';
    /** `me`: only pending ones that this caller may answer and has not. */
    readonly waiting_for?: 'me';
    /** For whom the agent acts: with the issuer, one user. What is suspended is an owner or a passport. */
    readonly user?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Approval, ApprovalPage>;
  /** Get an approval. Needs a key with the scope `approvals:read`. */
  get(id: string, query?: {
    /**
     * How long the answer may wait, in milliseconds: for all connected sidecars to apply the change, or
     * for the approval to be answered.
     */
    readonly wait_ms?: number;
  }, options?: CallOptions): Promise<ApprovalDetail>;
  /** Approve a request. Needs a key with the scope `approvals:resolve`. */
  approve(id: string, body?: ApprovalResolution, options?: CallOptions): Promise<Approval>;
  /** Deny a request. Needs a key with the scope `approvals:resolve`. */
  deny(id: string, body?: ApprovalResolution, options?: CallOptions): Promise<Approval>;
  /** Take an answer back. Needs a key with the scope `approvals:resolve`. */
  undo(id: string, options?: CallOptions): Promise<Approval>;
}

export interface McpPinsResource {
  /** List pinned tools of MCP servers, newest first. Needs a key with the scope `gates:read`. */
  list(query?: {
    readonly gate_id?: string;
    readonly status?: 'pinned' | 'changed' | 'rejected';
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<McpPinListItem, McpPinPage>;
  /** Report tools of an MCP server. Needs a key with the scope `enforcement:check`. */
  report(body: McpToolReport, options?: CallOptions): Promise<McpToolReportResult>;
  /** Get a pinned tool, with what has changed. Needs a key with the scope `gates:read`. */
  get(id: string, options?: CallOptions): Promise<McpPin>;
  /** Accept a change of a tool. Needs a key with the scope `gates:update`. */
  accept(id: string, body: McpPinResolution, options?: CallOptions): Promise<McpPin>;
  /** Reject a change of a tool. Needs a key with the scope `gates:update`. */
  reject(id: string, body: McpPinResolution, options?: CallOptions): Promise<McpPin>;
}

export interface WalletsResource {
  /** List wallets, newest first. Needs a key with the scope `wallets:read`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    /** The wallet above it; null: it is a root. */
    readonly parent_wallet_id?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Wallet, WalletPage>;
  /** Create a wallet. Needs a key with the scope `wallets:manage`. */
  create(body: WalletCreation, options?: CreateOptions & { readonly ifNoneMatch?: string }): Promise<Wallet>;
  /** Get a wallet, with what is left of each limit. Needs a key with the scope `wallets:read`. */
  get(id: string, options?: CallOptions): Promise<WalletDetail>;
  /** Change or move a wallet. Needs a key with the scope `wallets:manage`. */
  update(id: string, body?: WalletPatch, options?: CallOptions & { readonly ifMatch?: string }): Promise<Wallet>;
  /** Delete an empty wallet. Needs a key with the scope `wallets:manage`. */
  delete(id: string, options?: CallOptions & { readonly ifMatch?: string }): Promise<WalletDeletion>;
  /** Block all passports of a wallet and of those below it. Needs a key with the scope `wallets:manage`. */
  freeze(id: string, body?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<Wallet>;
  /**
   * What was spent from a wallet, by passport, gate and permission. Needs a key with the scope
   * `wallets:read`.
   */
  statement(id: string, query: {
    /** Only records from this time on. */
    readonly since: string;
    /** Only records before this time. */
    readonly until: string;
    readonly limit?: number;
    /** `next_page` of the page before: the lines behind it follow. */
    readonly page?: string;
  }, options?: CallOptions): Promise<WalletStatement>;
  /** Let a frozen wallet be used again. Needs a key with the scope `wallets:manage`. */
  unfreeze(id: string, body?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<Wallet>;
}

export interface StandingApprovalsResource {
  /** Approve requests ahead. Needs a key with the scope `approvals:resolve`. */
  create(body: StandingApprovalCreation, options?: CreateOptions): Promise<StandingApproval>;
  /** List standing approvals at your gates, newest first. Needs a key with the scope `approvals:read`. */
  list(query?: {
    readonly status?: 'active' | 'expired' | 'revoked' | 'policy_changed';
    readonly gate_id?: string;
    readonly passport_id?: string;
    /** A person or team that the passport belongs to; all passports of an owner are suspended together. */
    readonly owner?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<StandingApproval, StandingApprovalPage>;
  /** Get a standing approval, with what is used of it. Needs a key with the scope `approvals:read`. */
  get(id: string, options?: CallOptions): Promise<StandingApproval>;
  /** End a standing approval at once. Needs a key with the scope `approvals:resolve`. */
  end(id: string, options?: CallOptions): Promise<StandingApproval>;
}

export interface AttestationsResource {
  /** List attestations, newest first. Needs a key with the scope `attestations:read`. */
  list(query?: {
    readonly passport_id?: string;
    readonly gate_id?: string;
    /**
     * Of passports: only those whose `agent_id` contains this, in letters of any case. Of records: only
     * those of passports that the account of the caller has issued to exactly this agent.
     */
    readonly agent_id?: string;
    /** What was decided. */
    readonly decision?: 'PERMIT' | 'SUSPEND' | 'BLOCK';
    /** Only records with this reason. */
    readonly reason?: ReasonName;
    /** Only records of requests for exactly this permission. */
    readonly permission_key?: string;
    /** `served` or `failed`; null if none was reported. */
    readonly outcome?: 'missing' | 'served' | 'failed';
    /** Only records from this time on. */
    readonly since?: string;
    /** Only records before this time. */
    readonly until?: string;
    readonly limit?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Attestation, AttestationPage>;
  /** Export whole chains, for offline verification. Needs a key with the scope `attestations:read`. */
  export(query?: {
    /** Format of the export. */
    readonly format?: 'json' | 'jsonl' | 'csv' | 'dsse' | 'ocsf';
    /** Only records from this time on. */
    readonly since?: string;
    /** Passports and approvals are stated as they were then; default: as they are. */
    readonly as_of?: string;
    /** `1`: what opens the commitments of a record follows it, of jsonl and json. */
    readonly facts?: '1';
  }, options?: CallOptions): Promise<ByteStream>;
  /**
   * Get how long the account keeps records in the database. Needs a key with the scope
   * `attestations:read`.
   */
  getRetention(options?: CallOptions): Promise<Retention>;
  /** Set how long the account keeps records in the database. Needs a key with the scope `keys:manage`. */
  setRetention(body: RetentionUpdate, options?: CallOptions): Promise<Retention>;
  /** Get an attestation. Needs a key with the scope `attestations:read`. */
  get(id: string, options?: CallOptions): Promise<Attestation>;
  /** Get what opens the commitments of an attestation. Needs a key with the scope `attestations:read`. */
  getFacts(id: string, options?: CallOptions): Promise<AttestationFacts>;
  /**
   * Prove that a record is in the transparency log (C2SP tlog-proof). Needs a key with the scope
   * `attestations:read`.
   */
  getProof(id: string, options?: CallOptions): Promise<string>;
  /** Show a receipt. Needs a key with the scope `attestations:read`. */
  showReceipt(body: ReceiptShowing, options?: CallOptions): Promise<ReceiptReport>;
}

export interface OutcomesResource {
  /** Report the outcome of what a PERMIT allowed. Needs a key with the scope `enforcement:check`. */
  report(id: string, body: OutcomeReport, options?: CallOptions): Promise<PermitOutcome>;
  /** Get what a PERMIT counts now, and why. Needs a key with the scope `attestations:read`. */
  get(id: string, options?: CallOptions): Promise<PermitOutcome>;
  /** Refund what a PERMIT counts, or a part of it. Needs a key with the scope `enforcement:check`. */
  refund(id: string, body?: RefundRequest, options?: CreateOptions): Promise<PermitOutcome>;
  /**
   * List outcomes that sidecars have taken and that were refused, or wait for their PERMITs. Needs a key
   * with the scope `attestations:read`.
   */
  list(query?: {
    readonly status?: 'waiting' | 'refused';
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<ReportedOutcome, ReportedOutcomePage>;
}

export interface HoldsResource {
  /** Extend a hold. Needs a key with the scope `enforcement:check`. */
  extend(id: string, body: HoldExtension, options?: CallOptions): Promise<PermitOutcome>;
  /** List holds at your gates, newest first. Needs a key with the scope `attestations:read`. */
  list(query?: {
    readonly status?: 'open' | 'settled' | 'released' | 'expired';
    readonly gate_id?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<PermitOutcome, HoldPage>;
}

export interface AuditResource {
  /** List who changed what, newest first. Needs a key with the scope `audit:read`. */
  list(query?: {
    /** Who made the change. */
    readonly actor?: string;
    /** The operation: an operationId of this document. */
    readonly operation?: string;
    /** Id of what was changed. */
    readonly target?: string;
    /** Only records from this time on. */
    readonly since?: string;
    /** Only records before this time. */
    readonly until?: string;
    readonly limit?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<AuditEntry, AuditPage>;
  /** Export who changed what, for offline verification. Needs a key with the scope `audit:read`. */
  export(query?: {
    /** Only records from this time on. */
    readonly since?: string;
  }, options?: CallOptions): Promise<ByteStream>;
}

export interface IssuersResource {
  /** Create an issuer. Needs a key with the scope `issuers:create`. */
  create(body: IssuerCreation, options?: CreateOptions & { readonly ifNoneMatch?: string }): Promise<Issuer>;
  /** List issuers, newest first. Needs a key with the scope `issuers:read`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Issuer, IssuerPage>;
  /** Get an issuer with counts of its passports. Needs a key with the scope `issuers:read`. */
  get(id: string, options?: CallOptions): Promise<Issuer>;
  /** Change an issuer. Needs a key with the scope `issuers:update`. */
  update(id: string, body?: IssuerUpdate, options?: CallOptions): Promise<Issuer>;
  /** Revoke a subject of another issuer. Needs a key with the scope `passports:revoke`. */
  revokeSubject(id: string, body: SubjectRevocation, query?: {
    /**
     * How long the answer may wait, in milliseconds: for all connected sidecars to apply the change, or
     * for the approval to be answered.
     */
    readonly wait_ms?: number;
  }, options?: CallOptions): Promise<Revocation>;
  /** Say what a token of another issuer would become. Needs a key with the scope `issuers:read`. */
  tryToken(id: string, body: TokenTrial, options?: CallOptions): Promise<TokenExplanation>;
}

export interface TemplatesResource {
  /** Create a template. Needs a key with the scope `templates:create`. */
  create(body: TemplateCreation, options?: CreateOptions & { readonly ifNoneMatch?: string }): Promise<Template>;
  /** List templates, own and built-in. Needs a key with the scope `templates:read`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Template, TemplatePage>;
  /** Get a template. Needs a key with the scope `templates:read`. */
  get(id: string, options?: CallOptions): Promise<Template>;
}

export interface ApiKeysResource {
  /** Create an API key. Needs a key with the scope `keys:manage`. */
  create(body: ApiKeyCreation, options?: CreateOptions): Promise<NewApiKey>;
  /** List API keys, newest first. Needs a key with the scope `keys:manage`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<ApiKey, ApiKeyPage>;
  /** Get an API key. Needs a key with the scope `keys:manage`. */
  get(id: string, options?: CallOptions): Promise<ApiKey>;
  /** Delete an API key at once. Needs a key with the scope `keys:manage`. */
  delete(id: string, options?: CallOptions): Promise<ApiKeyDeletion>;
  /** Replace an API key by a new one. Needs a key with the scope `keys:manage`. */
  roll(id: string, body?: Roll, options?: CallOptions): Promise<NewApiKey>;
  /** Get what the calling key may do. Needs a key, of any scope. */
  whoAmI(options?: CallOptions): Promise<WhoAmI>;
}

export interface AccountsResource {
  /** Create an account with its first API key. Needs a live key of the operator with the scope `admin:*`. */
  create(body: AccountCreation, options?: CreateOptions): Promise<NewAccount>;
  /** List accounts, newest first. Needs a live key of the operator with the scope `admin:*`. */
  list(query?: {
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Account, AccountPage>;
  /** Get an account. Needs a live key of the operator with the scope `admin:*`. */
  get(id: string, options?: CallOptions): Promise<Account>;
  /** Change an account. Needs a live key of the operator with the scope `admin:*`. */
  update(id: string, body?: AccountUpdate, options?: CallOptions): Promise<Account>;
}

export interface ChannelsResource {
  /** Add a channel that tells people of approvals. Needs a key with the scope `webhooks:manage`. */
  create(body: ChannelCreation, options?: CreateOptions): Promise<NewChannel>;
  /** List channels, newest first. Needs a key with the scope `webhooks:manage`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Channel, ChannelPage>;
  /** Get a channel and how its last messages went. Needs a key with the scope `webhooks:manage`. */
  get(id: string, options?: CallOptions): Promise<Channel>;
  /** Change a channel. Needs a key with the scope `webhooks:manage`. */
  update(id: string, body?: ChannelUpdate, options?: CallOptions & { readonly ifMatch?: string }): Promise<Channel>;
  /** Delete a channel. Needs a key with the scope `webhooks:manage`. */
  delete(id: string, options?: CallOptions & { readonly ifMatch?: string }): Promise<ChannelDeletion>;
  /** Send a test message to a channel, now. Needs a key with the scope `webhooks:manage`. */
  test(id: string, options?: CallOptions): Promise<ChannelTest>;
}

export interface WebhooksResource {
  /** Subscribe an endpoint to events. Needs a key with the scope `webhooks:manage`. */
  create(body: WebhookCreation, options?: CreateOptions & { readonly ifNoneMatch?: string }): Promise<NewWebhook>;
  /** List webhooks, newest first. Needs a key with the scope `webhooks:manage`. */
  list(query?: {
    /**
     * Only those whose name contains this, in letters of any case. Of people also the address, of
     * webhooks the URL and the description.
     */
    readonly name?: string;
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
  }, options?: CallOptions): List<Webhook, WebhookPage>;
  /** Get a webhook. Needs a key with the scope `webhooks:manage`. */
  get(id: string, options?: CallOptions): Promise<Webhook>;
  /** Change a webhook. Needs a key with the scope `webhooks:manage`. */
  update(id: string, body?: WebhookUpdate, options?: CallOptions): Promise<Webhook>;
  /** Delete a webhook. Needs a key with the scope `webhooks:manage`. */
  delete(id: string, options?: CallOptions): Promise<WebhookDeletion>;
  /** List what was sent to a webhook, newest first. Needs a key with the scope `webhooks:manage`. */
  listDeliveries(id: string, query?: {
    readonly limit?: number;
    readonly offset?: number;
    /** `next_cursor` of the same query. */
    readonly cursor?: string;
    readonly status?: 'pending' | 'succeeded' | 'failed';
  }, options?: CallOptions): List<Delivery, DeliveryPage>;
  /** Send a delivery again. Needs a key with the scope `webhooks:manage`. */
  resendDelivery(id: string, deliveryId: string, options?: CallOptions): Promise<Delivery>;
  /** Send again what has failed since a time. Needs a key with the scope `webhooks:manage`. */
  recover(id: string, body: WebhookRecovery, options?: CallOptions): Promise<WebhookRecovered>;
  /** Replace the secret of a webhook by a new one. Needs a key with the scope `webhooks:manage`. */
  rollSecret(id: string, body?: Roll, options?: CallOptions): Promise<NewWebhook>;
  /** Send an event with sample data to a webhook. Needs a key with the scope `webhooks:manage`. */
  test(id: string, body?: WebhookTest, options?: CallOptions): Promise<Delivery>;
}

export interface SigningKeysResource {
  /** Get the public keys of this service (RFC 7517). Public: needs no key. */
  jwks(options?: CallOptions): Promise<Jwks>;
  /** Get the keys of sidecars that were revoked. Public: needs no key. */
  revokedSidecarKeys(options?: CallOptions): Promise<RevokedSidecarKeys>;
  /**
   * Revoke the key with which a sidecar signs receipts. Needs a live key of the operator with the scope
   * `admin:*`.
   */
  revokeSidecarKey(body: SidecarKeyRevocation, options?: CallOptions): Promise<RevokedSidecarKey>;
  /**
   * Replace a key with which this service signs. Needs a live key of the operator with the scope
   * `admin:*`.
   */
  rotate(body: KeyRotationRequest, options?: CallOptions): Promise<KeyRotation>;
}

export interface ServiceResource {
  /** Ask whether this process answers. Public: needs no key. */
  live(options?: CallOptions): Promise<{
    readonly status: 'live';
  }>;
  /** Get the metrics as Prometheus text. Public: needs no key. */
  metrics(options?: CallOptions): Promise<string>;
  /** Ask whether this process can serve. Public: needs no key. */
  ready(options?: CallOptions): Promise<Readiness>;
}

/** Every resource of the control plane; each operation of the API is one method. */
export interface Resources {
  readonly passports: PassportsResource;
  readonly owners: OwnersResource;
  readonly gates: GatesResource;
  readonly catalogs: CatalogsResource;
  readonly decisions: DecisionsResource;
  readonly authzen: AuthzenResource;
  readonly approvals: ApprovalsResource;
  readonly mcpPins: McpPinsResource;
  readonly wallets: WalletsResource;
  readonly standingApprovals: StandingApprovalsResource;
  readonly attestations: AttestationsResource;
  readonly outcomes: OutcomesResource;
  readonly holds: HoldsResource;
  readonly audit: AuditResource;
  readonly issuers: IssuersResource;
  readonly templates: TemplatesResource;
  readonly apiKeys: ApiKeysResource;
  readonly accounts: AccountsResource;
  readonly channels: ChannelsResource;
  readonly webhooks: WebhooksResource;
  readonly signingKeys: SigningKeysResource;
  readonly service: ServiceResource;
}

/** @internal Method, path, whether there is a body and a query, and what is special about it. */
export const resources = {
  passports: {
    issueUnattended: ['POST', '/api/passports', 'body creates'],
    issue: ['POST', '/v1/passports', 'body creates'],
    list: ['GET', '/v1/passports', 'query list'],
    get: ['GET', '/v1/passports/{id}', ''],
    reactivate: ['POST', '/v1/passports/{id}/reactivate', 'body'],
    revoke: ['POST', '/v1/passports/{id}/revoke', 'body query'],
    suspend: ['POST', '/v1/passports/{id}/suspend', 'body'],
    verify: ['GET', '/v1/passports/{id}/verify', ''],
    setWallet: ['POST', '/v1/passports/{id}/wallet', 'body'],
  },
  owners: {
    reactivate: ['POST', '/v1/owners/{owner}/reactivate', 'body'],
    suspend: ['POST', '/v1/owners/{owner}/suspend', 'body'],
  },
  gates: {
    getBacktest: ['GET', '/v1/backtests/{id}', ''],
    cancelBacktest: ['DELETE', '/v1/backtests/{id}', ''],
    checkCondition: ['POST', '/v1/conditions/check', 'body'],
    discover: ['GET', '/v1/discover', 'query list'],
    create: ['POST', '/v1/gates', 'body creates'],
    list: ['GET', '/v1/gates', 'query list'],
    get: ['GET', '/v1/gates/{id}', ''],
    update: ['PUT', '/v1/gates/{id}', 'body'],
    delete: ['DELETE', '/v1/gates/{id}', ''],
    startBacktest: ['POST', '/v1/gates/{id}/backtest', 'body'],
    listPolicies: ['GET', '/v1/gates/{id}/policies', 'query list'],
    putShadow: ['PUT', '/v1/gates/{id}/shadow', 'body'],
    getShadow: ['GET', '/v1/gates/{id}/shadow', ''],
    deleteShadow: ['DELETE', '/v1/gates/{id}/shadow', ''],
    promoteShadow: ['POST', '/v1/gates/{id}/shadow/promote', ''],
    getShadowReport: ['GET', '/v1/gates/{id}/shadow/report', 'query'],
    test: ['POST', '/v1/gates/{id}/test', 'body'],
    getPolicy: ['GET', '/v1/policies/{hash}', ''],
  },
  catalogs: {
    publish: ['POST', '/v1/gates/{id}/catalog', 'body creates'],
    get: ['GET', '/v1/gates/{id}/catalog', 'query'],
  },
  decisions: {
    enforce: ['POST', '/v1/enforce', 'body'],
    check: ['POST', '/v1/gates/{id}/check', 'body'],
    checkBatch: ['POST', '/v1/gates/{id}/check/batch', 'body'],
  },
  authzen: {
    getVocabulary: ['GET', '/v1/authzen/vocabulary', ''],
    setVocabulary: ['PUT', '/v1/authzen/vocabulary', 'body'],
  },
  approvals: {
    list: ['GET', '/v1/approvals', 'query list'],
    get: ['GET', '/v1/approvals/{id}', 'query'],
    approve: ['POST', '/v1/approvals/{id}/approve', 'body'],
    deny: ['POST', '/v1/approvals/{id}/deny', 'body'],
    undo: ['POST', '/v1/approvals/{id}/undo', ''],
  },
  mcpPins: {
    list: ['GET', '/v1/mcp-pins', 'query list'],
    report: ['POST', '/v1/mcp-pins', 'body'],
    get: ['GET', '/v1/mcp-pins/{id}', ''],
    accept: ['POST', '/v1/mcp-pins/{id}/accept', 'body'],
    reject: ['POST', '/v1/mcp-pins/{id}/reject', 'body'],
  },
  wallets: {
    list: ['GET', '/v1/wallets', 'query list'],
    create: ['POST', '/v1/wallets', 'body creates'],
    get: ['GET', '/v1/wallets/{id}', ''],
    update: ['PUT', '/v1/wallets/{id}', 'body'],
    delete: ['DELETE', '/v1/wallets/{id}', ''],
    freeze: ['POST', '/v1/wallets/{id}/freeze', 'body'],
    statement: ['GET', '/v1/wallets/{id}/statement', 'query'],
    unfreeze: ['POST', '/v1/wallets/{id}/unfreeze', 'body'],
  },
  standingApprovals: {
    create: ['POST', '/v1/approvals/standing', 'body creates'],
    list: ['GET', '/v1/approvals/standing', 'query list'],
    get: ['GET', '/v1/approvals/standing/{id}', ''],
    end: ['DELETE', '/v1/approvals/standing/{id}', ''],
  },
  attestations: {
    list: ['GET', '/v1/attestations', 'query list'],
    export: ['GET', '/v1/attestations/export', 'query stream'],
    getRetention: ['GET', '/v1/attestations/retention', ''],
    setRetention: ['PUT', '/v1/attestations/retention', 'body'],
    get: ['GET', '/v1/attestations/{id}', ''],
    getFacts: ['GET', '/v1/attestations/{id}/facts', ''],
    getProof: ['GET', '/v1/attestations/{id}/proof', 'text'],
    showReceipt: ['POST', '/v1/receipts', 'body'],
  },
  outcomes: {
    report: ['POST', '/v1/attestations/{id}/outcome', 'body'],
    get: ['GET', '/v1/attestations/{id}/outcome', ''],
    refund: ['POST', '/v1/attestations/{id}/refund', 'body creates'],
    list: ['GET', '/v1/outcomes', 'query list'],
  },
  holds: {
    extend: ['POST', '/v1/attestations/{id}/hold/extend', 'body'],
    list: ['GET', '/v1/holds', 'query list'],
  },
  audit: {
    list: ['GET', '/v1/audit', 'query list'],
    export: ['GET', '/v1/audit/export', 'query stream'],
  },
  issuers: {
    create: ['POST', '/v1/issuers', 'body creates'],
    list: ['GET', '/v1/issuers', 'query list'],
    get: ['GET', '/v1/issuers/{id}', ''],
    update: ['PUT', '/v1/issuers/{id}', 'body'],
    revokeSubject: ['POST', '/v1/issuers/{id}/revoke-subject', 'body query'],
    tryToken: ['POST', '/v1/issuers/{id}/try-token', 'body'],
  },
  templates: {
    create: ['POST', '/v1/templates', 'body creates'],
    list: ['GET', '/v1/templates', 'query list'],
    get: ['GET', '/v1/templates/{id}', ''],
  },
  apiKeys: {
    create: ['POST', '/v1/api-keys', 'body creates'],
    list: ['GET', '/v1/api-keys', 'query list'],
    get: ['GET', '/v1/api-keys/{id}', ''],
    delete: ['DELETE', '/v1/api-keys/{id}', ''],
    roll: ['POST', '/v1/api-keys/{id}/roll', 'body'],
    whoAmI: ['GET', '/v1/whoami', ''],
  },
  accounts: {
    create: ['POST', '/v1/accounts', 'body creates'],
    list: ['GET', '/v1/accounts', 'query list'],
    get: ['GET', '/v1/accounts/{id}', ''],
    update: ['PUT', '/v1/accounts/{id}', 'body'],
  },
  channels: {
    create: ['POST', '/v1/channels', 'body creates'],
    list: ['GET', '/v1/channels', 'query list'],
    get: ['GET', '/v1/channels/{id}', ''],
    update: ['PATCH', '/v1/channels/{id}', 'body'],
    delete: ['DELETE', '/v1/channels/{id}', ''],
    test: ['POST', '/v1/channels/{id}/test', ''],
  },
  webhooks: {
    create: ['POST', '/v1/webhooks', 'body creates'],
    list: ['GET', '/v1/webhooks', 'query list'],
    get: ['GET', '/v1/webhooks/{id}', ''],
    update: ['PUT', '/v1/webhooks/{id}', 'body'],
    delete: ['DELETE', '/v1/webhooks/{id}', ''],
    listDeliveries: ['GET', '/v1/webhooks/{id}/deliveries', 'query list'],
    resendDelivery: ['POST', '/v1/webhooks/{id}/deliveries/{delivery_id}/resend', ''],
    recover: ['POST', '/v1/webhooks/{id}/recover', 'body'],
    rollSecret: ['POST', '/v1/webhooks/{id}/roll-secret', 'body'],
    test: ['POST', '/v1/webhooks/{id}/test', 'body'],
  },
  signingKeys: {
    jwks: ['GET', '/.well-known/jwks.json', ''],
    revokedSidecarKeys: ['GET', '/.well-known/sidecar-keys.json', ''],
    revokeSidecarKey: ['POST', '/v1/signing-keys/revoke-sidecar-key', 'body'],
    rotate: ['POST', '/v1/signing-keys/rotate', 'body'],
  },
  service: {
    live: ['GET', '/livez', ''],
    metrics: ['GET', '/metrics', 'text'],
    ready: ['GET', '/readyz', 'status'],
  },
} as const;
