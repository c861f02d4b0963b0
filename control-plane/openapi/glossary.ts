import type { Parameter, Schema } from './document.ts';

/**
 * What each field and parameter means. One name means one thing wherever it is; the few that do not are told
 * apart by the schema that they are in (`Decision.limit`). A test demands an entry for every field of the
 * document, and a field for every entry.
 */
export const glossary: Readonly<Record<string, string>> = {
  // Passports
  passport_id: 'Id of the passport, `pass_…`.',
  agent_id:
    "The caller's own identifier for the agent. Unique among the passports of an account and mode that are active or suspended.",
  agent_name: 'Name of the agent, for people. Default: the `agent_id`.',
  agent_type: 'Kind of the agent, in the unattended variant; kept in `subject`.',
  issuer_domain: 'Domain that the issuer claims.',
  subject:
    'Describes the agent: model, version, operator and the like. Free-form; always contains `agent_id`.',
  permissions: 'What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.',
  trust_tier: 'How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.',
  public_key: "The agent's own Ed25519 key: `ed25519:` and base64url of 32 bytes.",
  private_key:
    'The other half: `ed25519_private:` and base64url of the seed. Returned only in this answer and stored nowhere; absent if the caller sent a public key.',
  jwt: 'The passport itself: a signed token (JWS), which the agent presents. A bearer credential, returned only in this answer.',
  issued_at: 'When the passport was issued.',
  expires_at: 'When it expires; null if it never expires.',
  expires_in: 'How long it is valid: a number with `s`, `m`, `h` or `d`.',
  expires_in_days: 'How long the passport is valid, in days. Default 90.',
  metadata: 'Free-form, kept and answered as sent. At most 16 KiB of JSON.',
  use_count: 'Number of PERMIT decisions for the passport.',
  last_used_at: 'When it was last used; null if never.',
  revoked_at: 'When the passport was revoked; null if it is not revoked.',
  revocation_reason: 'Why the passport was revoked.',
  revoked_by:
    'Who revoked the passport, as in its audit entry; null if it is not revoked, or was revoked before the service recorded this.',
  valid: 'Whether the passport is valid now.',
  is_expired: 'Whether the passport has expired.',
  expired: 'The same as `is_expired`.',
  is_revoked: 'Whether the passport is revoked.',
  revoked: 'The same as `is_revoked`.',
  propagation: 'How many of the sidecars that serve passports of this account have applied this change.',
  silent:
    'Sidecars that were connected in the last minutes and are not now. They keep deciding on their last known state, for as long as the trust level of the gate allows.',
  revision: 'Revision number of this change.',
  sidecars: 'How many sidecars are connected.',
  acknowledged: 'How many of them have applied this change.',
  'Verification.reason': 'Most severe reason why the passport is invalid; null if it is valid.',
  'PassportRevocation.reason': 'Reason, kept for the record. Default `unspecified`.',
  'Revocation.reason': 'Reason, kept for the record.',

  // Gates and templates
  gate_id: 'Id of the gate, `gate_…`.',
  gate_name: 'Name of the gate.',
  gate_url: 'URL of the gate itself, for proxies.',
  trust_level: 'Minimum trust tier of a passport.',
  trust_profile: 'The same as `trust_level`.',
  template_id: 'Id of the template, `tmpl_…`, or the name of a built-in one.',
  built_in: 'Whether the template comes with the service.',
  constraints: 'Limits that apply to every decision.',
  routes:
    'Which permission a request to `gate_url` needs, by its method and path. The first route that fits counts. At most 256; absent: none.',
  'GateCreation.routes':
    'Which permission a request to `gate_url` needs, by its method and path. The first route that fits counts. At most 256.',
  'GatePatch.routes': 'Replaces all routes; null or an empty array removes them.',
  'GateRoute.methods': 'Methods in capitals, such as `GET`. Default: every method.',
  'GateRoute.path':
    'Path below the gate: `/orders`, `/orders/:id` (one segment), `/files/*` (the rest). Compared with the decoded path.',
  'GateRoute.permission_key': 'The permission that such a request needs.',
  'GateRoute.amount_usd': 'What such a request spends, in USD. Default: it has no amount.',
  'MachineIssue.constraints': 'Limits of this passport, at every gate.',
  'ReferenceIssue.constraints': 'Limits of this passport, at every gate.',
  rate_limits: 'Requests per UTC calendar window.',
  requests_per_minute: 'Requests in a UTC minute.',
  requests_per_hour: 'Requests in a UTC hour.',
  requests_per_day: 'Requests in a UTC day.',
  per: 'Whether all passports share the limit (`gate`, the default) or each has its own (`passport`).',
  spend_limits: 'Money, in USD with at most 6 decimals.',
  per_transaction_usd: 'The most that one request may spend.',
  daily_usd: 'The most that may be spent in a UTC day.',
  monthly_usd: 'The most that may be spent in a UTC month.',
  unpriced:
    'What a request without an amount and without a catalog price gets where a spend limit or `approvals.above_usd` applies: `block` (default) is BLOCK `amount_missing`, `permit` counts it as 0.',
  alert_at: 'The fraction of a spend limit at which `spend_limit.approaching` fires. Default 0.8.',
  allowed_domains: 'Domains that a request may target: `api.example.com` or `*.example.com`.',
  pii_controls: 'What happens to personal data in requests.',
  'GateConstraints.mode':
    '`log_only` permits and records the findings, `redact` removes the data, `block` blocks.',
  types: 'Kinds of personal data that are looked for. Absent: all.',
  approvals: 'Which requests a person must approve first.',
  above_usd: 'Requests that spend more than this.',
  'GateConstraints.permissions': 'Requests for these permissions.',
  'PassportConstraints.permissions': 'Requests for these permissions.',
  expires_in_s: 'How long an approval stays pending, in seconds. Default 300.',
  trusted_issuers:
    "Ids of issuers that the gate trusts, and `own` for the issuers of the gate's own account; or `*` alone for all issuers. Absent: the own issuers.",
  proof_of_possession: 'Whether the agent must sign the request with its own key.',
  last_changed_by:
    'Who made the last change of the gate or its catalog, as in its audit entry; null if it was made before the service recorded this.',
  stats: 'Counts of all decisions at the gate, without gate tests.',
  total_requests: 'Decisions at the gate.',
  permits: 'Of these, PERMIT.',
  blocks: 'Of these, BLOCK.',
  last_request_at: 'When the gate last decided; null if never.',
  request_count: 'Decisions at the gate.',
  permit_count: 'Of these, PERMIT.',
  block_count: 'Of these, BLOCK.',
  deleted: 'Whether it is deleted.',
  deleted_at: 'When it was deleted.',

  // Catalogs and discovery
  catalog: 'What the gate offers, and at what price.',
  'Catalog.permissions': 'What the gate offers, in the order of the publisher.',
  'CatalogPublication.permissions': 'What the gate offers. An empty list offers nothing.',
  'GateCreation.permissions': 'What the gate offers. An empty list offers nothing.',
  'Catalog.key': 'The permission that is offered: `<area>:<action>`.',
  'CatalogPublication.key': 'The permission that is offered: `<area>:<action>`.',
  'GateCreation.key': 'The permission that is offered: `<area>:<action>`.',
  permission_key: 'The permission requested or offered: `<area>:<action>`.',
  display_name: 'Name of the permission, for people.',
  pricing: 'What it costs; null if it has no price.',
  model: 'The unit of the price: a call, a minute, or a subscription.',
  price_cents: 'The price in hundredths of the currency.',
  currency: 'Currency of the price, such as USD.',
  category: 'Group of offers, such as `logistics`.',
  risk_level: 'Risk as rated by the publisher.',
  sla: 'Service level that the publisher promises; null if none.',
  uptime_basis_points: 'Uptime; 10000 is 100 %.',
  response_time_ms: 'Response time in milliseconds.',
  platform_fee: "The platform's share; null if none.",
  basis_points: 'Hundredths of a percent.',
  requires_approval: 'Whether a person must approve each request for it.',
  version: 'Version of the catalog, from 1.',
  published_at: 'When this version was published.',
  content_hash:
    '`sha256:` and hex of SHA-256 over the RFC 8785 form of the catalog without hash and signature.',
  results: 'What was found, in the requested order.',
  query: 'The query, with defaults filled in.',
  security_profile: 'The `trust_level` of the gate.',
  catalog_version: 'Version of the catalog that contains the offer.',
  catalog_content_hash: '`content_hash` of that catalog.',
  catalog_signature: '`signature` of that catalog.',

  // Decisions
  passport: 'The token that the agent presented.',
  passport_token: 'The token that the agent presented.',
  request:
    'What the agent intends to do. Other members than the documented ones count for the request hash and PII controls only.',
  context: 'Other members of the `request` of a check, such as `domain` and `estimated_cost_usd`.',
  'Request.permission_key': 'The requested permission: `<area>:<action>`. Required at a gate.',
  'Request.requested_action': 'The same as `permission_key`.',
  'Request.action': 'The same as `permission_key`.',
  'Request.amount': 'What the request would spend, in USD with at most 6 decimals.',
  'Request.amount_usd': 'The same as `amount`.',
  'Request.estimated_cost_usd': 'The same as `amount`.',
  'Request.currency':
    'Currency of the amount. Only USD is supported; anything else is BLOCK `currency_unsupported`.',
  'Request.domain': 'Host that the request targets; checked against `allowed_domains`.',
  'Request.url': 'Absolute http, https, ws or wss URL; its host counts as `domain`.',
  'Request.idempotency_key':
    'A request that is sent several times with the same key is charged once; a repeat gets the first PERMIT again.',
  'Request.approval_id': 'The approved approval of an earlier SUSPEND of the same request.',
  'Request.gate_id':
    'The gate that `/enforce` decides for; absent: the passport alone is checked. Elsewhere it must be the gate in the URL.',
  'CheckBatchRequest.checks': 'The checks; each is what the body of `check` would be.',
  'CheckBatch.results': 'One result for each check, in the same order: a decision, or an error.',
  'Request.proof': 'Proof that the agent holds the key of its passport. Not part of the request hash.',
  requested_action: 'The requested permission.',
  decision: 'What was decided.',
  reason: 'Reason code; null for a PERMIT.',
  attestation_id: 'Id of the record of this decision, `att_…`; null for a SUSPEND.',
  constraints_evaluated: 'The checks made, in order. The last one determined the decision.',
  guardrails_evaluated: 'The checks made, in order. The last one determined the decision.',
  all_passed: 'Whether the decision is PERMIT.',
  detail: 'The reason as a sentence.',
  retry: 'Whether and when to retry.',
  retryable: 'Whether the same request can succeed later.',
  after_ms: 'In how many milliseconds; null if unknown.',
  'Block.limit': 'The limit that the request would exceed, in its unit.',
  'GateTest.limit': 'The limit that the request would exceed, in its unit.',
  used: 'How much of the limit was used already.',
  requested: 'How much more was requested.',
  reset_at: 'When the window of the limit ends; null if it has no window.',

  // Approvals
  approval_id: 'Id of the approval, `appr_…`.',
  'Approval.status': '`approved` until it is used, denied or expired.',
  'Approval.passport_id': 'The passport of the requesting agent.',
  'Approval.agent_id': 'The requesting agent, as its owner named it.',
  'Approval.gate_id': 'The gate of the request.',
  'Approval.permission_key': 'The requested permission.',
  'Approval.created_at': 'When the request was made.',
  'Approval.expires_at': 'Deadline to approve or deny; once approved, deadline to use the approval.',
  amount_usd: 'What the request would spend; null if it has no amount. Held until the approval ends.',
  resolved_at: 'When it was approved or denied; null if it was not.',
  resolved_by: '`key_id` of the API key that resolved it; null if nobody did.',
  note: 'What that person wrote; null if nothing.',
  'ApprovalResolution.note': "Reason, for the record and for the agent's owner. At most 500 characters.",

  // Attestations
  attestations: 'The records of this page.',
  next_cursor: '`cursor` of the next page; null on the last page.',
  'Attestation.id': 'Id of the record, `att_…`.',
  'Attestation.passport_id': 'The passport that was presented; null if it did not verify.',
  'Attestation.gate_id': 'The gate that decided; null for a decision without a gate.',
  'Attestation.permission_key': 'The requested permission; null if none.',
  chain_id: 'The passport, gate or account whose chain this record belongs to.',
  sequence: 'Place in the chain, from 1.',
  hash: '`sha256:` and hex of SHA-256 over the RFC 8785 form of the record without hash and signature.',
  previous_attestation_hash: '`hash` of the previous record in the chain; null for the first.',
  request_hash: '`sha256:` and hex of SHA-256 over the RFC 8785 form of the request.',
  signature: 'base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly.',
  signing_key_id: '`kid` of the key that signed, in the JWKS.',
  amount_micro_usd: 'Amount of the request, in millionths of a USD; null if it had none.',
  pii: 'Where personal data was found, never the data itself.',
  request_redacted:
    'With a PERMIT of a gate that redacts: the request without the personal data in it. Pass this on.',
  redactions: 'What was replaced in `request_redacted`.',
  pointer: 'JSON pointer into the request.',
  'Attestation.type': 'Kind of personal data.',
  'PiiFinding.type': 'Kind of personal data.',
  resolution:
    'How a SUSPEND was resolved, or `voided`: the decision in `refers_to` has no effect. Null for every other record.',
  refers_to: 'The approval that the record resolves, or the attestation that it voids.',
  source: 'Id of the sidecar that decided, or `control-plane`.',
  source_account: 'Account of that sidecar, or of the call that the control plane answered.',
  'Attestation.test': 'Whether it was a gate test.',
  timestamp: 'When it was decided.',
  manifest: 'What the export holds.',
  'Export.format': 'Name and version of the format.',
  'Export.since':
    'Each chain starts at its first record that is not older than this; null: at its first record.',
  'Export.created_at': 'When the export was made.',
  key_ids: '`kid` of every key that may have signed a record of the export.',
  chains: 'The chains in ascending order of `chain_id`, each with its records; at the end, how many.',
  first_sequence: '`sequence` of the first record of the chain that follows.',
  last_sequence: '`sequence` of the last one.',
  last_hash: '`hash` of the last one.',
  end: 'End line: shows that nothing is missing at the end.',
  records: 'How many records there are in all.',

  // Audit of administration
  audit_id: 'Id of the entry, `aud_…`.',
  actor: 'Who made the change.',
  'Actor.type':
    '`api_key`: with this key; `access_token`: with a token that is bound to it. Others may come, such as people with a login.',
  'Actor.id': 'Id of the actor: the `key_id` of the API key.',
  'Actor.client_id': 'The OAuth client to which the access token was issued; null for an API key.',
  operation: 'The operation: an operationId of this document.',
  target: 'Id of what was changed.',
  before:
    'State before the change, as this API shows it, without secrets; null if the object did not exist. Where both exist, `before` and `after` contain only the members that differ.',
  after: 'State after the change, likewise; null if the object no longer exists.',
  entries: 'The entries of this page.',
  previous_hash: '`hash` of the previous entry in the chain; null for the first.',
  'AuditEntry.hash':
    '`sha256:` and hex of SHA-256 over the RFC 8785 form of the entry without hash and signature.',
  'AuditEntry.signature':
    'base64url of the Ed25519 signature over the hash; docs/audit.md says over which text exactly.',
  'AuditEntry.created_at': 'When the change was made.',

  // Issuers
  issuer_id: 'Id of the issuer, `iss_…`.',
  'ReferenceIssue.issuer_id': "Id of the issuer, `iss_…`. Default: the account's own default issuer.",
  domain: 'Host name that the issuer claims; nobody verified it.',
  passport_count: 'Passports issued in its name.',
  active_passports: 'Of these, active now.',
  revoked_passports: 'Of these, revoked.',
  last_passport_issued_at: 'When the last one was issued; null if none was issued yet.',

  // API keys, accounts, signing keys
  key_id: 'Id of the API key, `key_…`.',
  key: 'The API key itself. Shown this once; only its hash is kept.',
  scopes: 'What the key may do.',
  mode: '`live` or `test`: two environments that are kept apart.',
  prefix: 'First 12 characters of the key, to recognise it by.',
  last4: 'Last 4 characters of the key.',
  overlap_s: 'How long the old one stays valid beside the new one, in seconds. Default 0.',
  account_id: 'Id of the account, `acct_…`.',
  plan: 'The plan of the account; determines its limits.',
  limits:
    'Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the enterprise plan can have; null if unlimited.',
  api_key: 'The first key of the account.',
  keys: 'All keys, whatever their purpose.',
  kty: 'Key type (RFC 8037).',
  crv: 'Curve (RFC 8037).',
  alg: 'Algorithm (RFC 7518).',
  use: 'What the key is for (RFC 7517).',
  kid: 'RFC 7638 thumbprint of the key.',
  purpose: 'What the key signs. It verifies nothing else.',
  x: 'base64url of the 32 bytes of the public key.',
  nbf: 'When the key starts to sign, in Unix seconds.',
  not_before: 'When the next key starts to sign.',
  previous: 'The key that it replaces.',
  retired_at: 'When the key stops signing; null if it signs now, or will.',
  compromised: 'Whether somebody else may have the private key: then its signatures prove nothing.',

  // Webhooks
  webhook_id: 'Id of the webhook, `wh_…`.',
  url: 'Where events are sent, over https; null if its deliveries are fetched instead.',
  'WebhookUpdate.url': 'Where events are sent, over https.',
  events: 'The events that it subscribes to.',
  disabled_reason:
    'Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three days; `unread`: nobody fetched for an hour; null if it is enabled.',
  failing_since: 'When the first attempt after the last success failed; null if none failed.',
  secret: 'Secret that signs deliveries: `whsec_` and base64. Shown only once; stored encrypted.',
  'WebhookTest.event': 'The event to send. Default: the first that the webhook subscribes to.',
  'WebhookRecovery.since': 'Deliveries created at or after this time.',
  requeued: 'How many deliveries are sent again.',
  has_more: 'Whether there are more; if so, call again.',
  delivery_id: 'Id of the delivery, `dlv_…`.',
  event_id:
    'Id of the event, `evt_…`: the `webhook-id` header, the same in every attempt and at every webhook.',
  event: 'What happened.',
  'Delivery.status': '`pending`: an attempt is due or in flight; `failed`: given up until it is sent again.',
  payload: 'The body that is sent.',
  data: 'Details of the event.',
  window: 'Which window of the limit: the UTC day or the UTC month.',
  limit_usd: 'The limit, in USD.',
  spent_usd: 'What was spent in this window, in USD.',
  fraction: '`spent_usd` of `limit_usd`, cut to four decimals.',
  'PassportRevokedEvent.reason': 'Reason, kept for the record.',
  attempt_count: 'Number of attempts.',
  attempts: 'The newest attempts, the last one first.',
  attempt: 'Number of the attempt, from 1.',
  started_at: 'When the attempt began.',
  latency_ms: 'How long it took, in milliseconds.',
  status_code: 'HTTP status of the answer; null if there was none.',
  'Delivery.error': 'Why there was no answer; null if there was one.',
  response:
    'The first KiB of the answer, with everything that looks like a secret removed; null if there was none.',
  next_attempt_at: 'When the next attempt is due; null if none is.',

  // Statistics
  from: 'A time in the first bucket. Default: an hour, a day or 30 days back, by `step`.',
  to: 'A time in the last bucket, or its end. Default: now.',
  ends_at: 'When the last bucket ends.',
  step: 'Length of a bucket, in UTC.',
  buckets: 'All buckets, the oldest first.',
  starts_at: 'When the bucket begins.',
  counts: 'One for each outcome and reason that there was.',
  count: 'How many decisions.',
  sidecar_id: 'Id of the sidecar, `side_…`.',
  'Sidecar.version': 'Version of its program; null if it did not say.',
  is_connected: 'Whether it was heard of in the last seconds.',
  connected_at: 'When its connection began.',
  'Sidecar.last_seen_at': 'When it was last heard of.',
  lag_ms: 'How long ago it was last heard of, in milliseconds.',
  changes_behind: 'How many changes it has not acknowledged.',
  clock_offset_ms: 'Its clock minus that of the control plane, in milliseconds.',

  // People
  user_id: 'Id of the user, `usr_…`.',
  email: 'Email address, in lower case. Unique in the account.',
  'Login.email': 'Email address of the user.',
  'InvitationAcceptance.email':
    'Email address of the first owner, who was invited without one; else ignored.',
  role: 'What the user may do: `owner`, `admin`, `approver`, `auditor` or `read_only`.',
  'User.status': '`invited`: has not accepted yet; `disabled`: cannot log in.',
  'UserUpdate.status': '`disabled` ends access, `active` gives it back.',
  totp_enabled: 'Whether a login needs a code of an authenticator app.',
  last_login_at: 'When the user last logged in; null if never.',
  user: 'The user.',
  account: 'The account of the user.',
  is_operator: 'Whether it is the account that operates this service.',
  invitation_url: 'The link for the user; a secret, shown only once. It works once.',
  'InvitedUser.expires_at': 'When the link stops working.',
  password: 'The password.',
  'InvitationAcceptance.password': 'The password, 12 to 256 characters.',
  'InvitationAcceptance.token': 'What follows `#token=` in the link.',
  totp_code: 'Six digits of the authenticator app, or a recovery code; needed if the user has set one up.',
  'Login.account_id': 'Which account, if the address belongs to users of several.',
  current_password: 'Your password up to now.',
  new_password: 'Your password from now on, 12 to 256 characters.',
  'TotpBegun.secret': 'The secret of the app, in base 32. Shown only once; stored encrypted.',
  uri: 'The same for the app to scan as a QR code: `otpauth://totp/…`.',
  'TotpConfirmation.code': 'Six digits that the app shows now.',
  recovery_codes: 'Each lets you in once in place of a code. Shown only once.',
  session_id: 'Id of the session, `sess_…`.',
  'Session.scopes': 'What the role of the user allows.',
  'Session.expires_at': 'When the session ends at the latest.',
  'SessionListItem.expires_at': 'When the session ends at the latest.',
  idle_expires_at: 'When the session ends if no request comes before.',
  last_seen_at: 'When its last request came, to the minute.',
  user_agent: 'How the browser called itself at the login; null if unknown.',
  is_current: 'Whether it is the session of this request.',

  // Everywhere
  id: 'The id of this object under its short name.',
  name: 'Name, for people.',
  description: 'Text for people.',
  status: 'Current status.',
  created_at: 'When it was created.',
  updated_at: 'When it was last changed.',
  items: 'The objects of this page, newest first.',
  total: 'Total number.',
  limit: 'Maximum number of objects to return.',
  offset: 'Number of objects to skip.',
  error: 'What went wrong.',
  code: 'For programs to branch on; a closed list, see docs/errors.md.',
  message: 'Text for people.',
  'Error.status': 'The HTTP status.',
  param: 'The field or parameter at fault, if there is one.',
  request_id: 'Names the request; also in `X-Request-Id`.',
  draining: 'Whether this process is about to stop. It still answers; send it no new requests.',
  database: 'Whether PostgreSQL can be reached and is migrated.',
  push: 'Whether changes are pushed to the sidecars; without it they poll.',
  appending:
    'Whether this process appends to the chains of records: working, or stopped by an internal error until it is restarted.',
  push_lost: 'How many pushed messages could not be sent.',
  'Readiness.sidecars': 'The sidecars of this service; null if unknown.',
  connected: 'How many of them are connected.',
  clock_offset_ms_max: 'Largest clock offset of any of them, in milliseconds.',

  // Parameters
  capability: 'A permission key, a bare area, or a category.',
  max_price_cents: 'Only what costs at most this.',
  min_uptime_bp: 'Only what promises at least this uptime, in basis points (10000 is 100 %).',
  max_response_time_ms: 'Only what promises at most this response time.',
  pricing_model: 'Only what is priced by this model.',
  min_security_profile: 'Only gates of at least this trust level.',
  sort: 'Sort order of the results; those without a value come last.',
  'query.agent_id': 'Only records of passports that the account of the caller has issued to this agent.',
  'query.permission_key': 'Only records of requests for exactly this permission.',
  'query.reason': 'Only records with this reason.',
  since: 'Only records from this time on.',
  until: 'Only records before this time.',
  cursor: '`next_cursor` of the same query.',
  format: 'Format of the export.',
  wait_ms: 'How long the answer may wait for all connected sidecars to apply the change, in milliseconds.',
};

/** Whose id is in a path, by the collection before it. */
const pathIds: Readonly<Record<string, string>> = {
  passports: 'passport_id',
  gates: 'gate_id',
  attestations: 'Attestation.id',
  issuers: 'issuer_id',
  templates: 'template_id',
  'api-keys': 'key_id',
  accounts: 'account_id',
  users: 'user_id',
  sessions: 'session_id',
  webhooks: 'webhook_id',
  deliveries: 'delivery_id',
};

const meaningOf = (owner: string, name: string): string | undefined =>
  glossary[`${owner}.${name}`] ?? glossary[name];

export function describeField(owner: string, name: string, field: Schema): Schema {
  const description = meaningOf(owner, name);
  return {
    ...(description === undefined ? {} : { description }),
    // Where a field brings words of its own, they are the better ones.
    ...field,
    ...(isTime(name, field) ? { format: 'date-time' } : {}),
  };
}

const isTime = (name: string, { type, enum: values }: Schema): boolean =>
  (/_(?:at|since)$/.test(name) || ['timestamp', 'not_before', 'since', 'until'].includes(name)) &&
  [type].flat().includes('string') &&
  values === undefined;

export function describeParameter(path: string, parameter: Parameter): Parameter {
  const { name, schema } = parameter;
  const parts = path.split('/');
  const owner = parameter.in === 'path' ? pathIds[parts[parts.indexOf(`{${name}}`) - 1] ?? ''] : name;
  const description = meaningOf(parameter.in, owner ?? name);
  const timed = isTime(name, schema) ? { ...schema, format: 'date-time' } : schema;
  return { ...parameter, schema: timed, ...(description === undefined ? {} : { description }) };
}
