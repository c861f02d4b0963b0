import type { Parameter, Schema } from './document.ts';

/**
 * What each field and parameter means. One name means one thing wherever it stands; the few that do not are
 * told apart by the schema that they stand in (`Decision.limit`). A test demands an entry for every field of
 * the document, and a field for every entry.
 */
export const glossary: Readonly<Record<string, string>> = {
  // Passports
  passport_id: 'Id of the passport, `pass_…`.',
  agent_id:
    "The caller's own name of the agent. Unique among the passports of an account and mode that are active or suspended.",
  agent_name: 'The agent as people call it. Default: the `agent_id`.',
  agent_type: 'Kind of the agent, in the unattended variant; kept in `subject`.',
  issuer_domain: 'Domain that the issuer claims.',
  subject: 'Who the agent is: model, version, operator and the like. Free-form; always holds `agent_id`.',
  permissions: 'What the agent may do: `<area>:<action>`, or `<area>:*` for the whole area.',
  trust_tier: 'How far the agent is trusted: L1 lowest, L3 highest. At most that of the issuer.',
  public_key: "The agent's own Ed25519 key: `ed25519:` and base64url of 32 bytes.",
  private_key:
    'The other half: `ed25519_private:` and base64url of the seed. Returned this once and kept nowhere; absent where the agent brought its key.',
  jwt: 'The passport itself: a signed token (JWS), which the agent shows. A bearer credential, in this answer only.',
  issued_at: 'When the passport was issued.',
  expires_at: 'From when on it is no longer valid; null: never.',
  expires_in: 'How long it is valid: a number with `s`, `m`, `h` or `d`.',
  expires_in_days: 'How long the passport is valid, in days. Default 90.',
  metadata: 'Free-form, kept and answered as sent. At most 16 KiB of JSON.',
  use_count: 'How many times the passport was permitted.',
  last_used_at: 'When it was last used; null: never.',
  revoked_at: 'When the passport was revoked; null: it is not.',
  revocation_reason: 'Why the passport was revoked.',
  revoked_by:
    'Who revoked the passport, as its audit entry names them; null: it is not revoked, or was revoked before the service kept it.',
  valid: 'Whether the passport is valid now.',
  is_expired: 'Whether the passport has expired.',
  expired: 'The same as `is_expired`.',
  is_revoked: 'Whether the passport is revoked.',
  revoked: 'The same as `is_revoked`.',
  propagation: 'How far the sidecars that serve passports of this account have got with this change.',
  silent:
    'Sidecars that were connected in the last minutes and are not now. They go on with what they knew, for as long as the trust level allows.',
  revision: 'The number of this change among all.',
  sidecars: 'How many sidecars are connected.',
  acknowledged: 'How many of them have this change in force.',
  'Verification.reason': 'The gravest reason why the passport is not valid; null: it is.',
  'PassportRevocation.reason': 'Why, for the record. Default `unspecified`.',
  'Revocation.reason': 'Why, for the record.',

  // Gates and templates
  gate_id: 'Id of the gate, `gate_…`.',
  gate_name: 'Name of the gate.',
  gate_url: 'The address of the gate itself.',
  trust_level: 'The trust tier that a passport must have at least.',
  trust_profile: 'The same as `trust_level`.',
  template_id: 'Id of the template, `tmpl_…`, or the name of a built-in one.',
  built_in: 'Whether the template comes with the service.',
  constraints: 'The limits that bind every decision.',
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
  allowed_domains: 'Domains that a request may be for: `api.example.com` or `*.example.com`.',
  pii_controls: 'What happens to personal data in requests.',
  'GateConstraints.mode': '`log_only` permits and notes it, `redact` takes it out, `block` blocks.',
  types: 'Kinds of personal data that are looked for. Absent: all.',
  approvals: 'Which requests a person must approve first.',
  above_usd: 'Requests that spend more than this.',
  'GateConstraints.permissions': 'Requests for these permissions.',
  'PassportConstraints.permissions': 'Requests for these permissions.',
  expires_in_s: 'How long an approval is waited for, in seconds. Default 300.',
  trusted_issuers:
    "Ids of issuers whose passports count, and `own` for those of the gate's own account; or `*` alone for all. Absent: the own ones.",
  proof_of_possession: 'Whether the agent must sign the request with its own key.',
  last_changed_by:
    'Who made the last change of the gate or its catalog, as its audit entry names them; null: it was made before the service kept it.',
  stats: 'Counts of all decisions at the gate, tests left out.',
  total_requests: 'Decisions at the gate.',
  permits: 'Of them PERMIT.',
  blocks: 'Of them BLOCK.',
  last_request_at: 'When the gate last decided; null: never.',
  request_count: 'Decisions at the gate.',
  permit_count: 'Of them PERMIT.',
  block_count: 'Of them BLOCK.',
  deleted: 'That it is deleted.',
  deleted_at: 'When it was deleted.',

  // Catalogs and discovery
  catalog: 'What the gate offers, and at what price.',
  'Catalog.permissions': 'What the gate offers, in the order of the publisher.',
  'CatalogPublication.permissions': 'What the gate offers. An empty list offers nothing.',
  'GateCreation.permissions': 'What the gate offers. An empty list offers nothing.',
  'Catalog.key': 'The permission that is offered: `<area>:<action>`.',
  'CatalogPublication.key': 'The permission that is offered: `<area>:<action>`.',
  'GateCreation.key': 'The permission that is offered: `<area>:<action>`.',
  permission_key: 'The permission asked for or offered: `<area>:<action>`.',
  display_name: 'The permission as people call it.',
  pricing: 'What it costs; null: not priced.',
  model: 'What the price is for: a call, a minute, or a subscription.',
  price_cents: 'The price in hundredths of the currency.',
  currency: 'Currency of the price, such as USD.',
  category: 'Group of offers, such as `logistics`.',
  risk_level: 'How risky the publisher calls it.',
  sla: 'What the publisher promises; null: nothing.',
  uptime_basis_points: 'Uptime; 10000 is 100 %.',
  response_time_ms: 'Response time in milliseconds.',
  platform_fee: "The platform's share; null: none.",
  basis_points: 'Hundredths of a percent.',
  requires_approval: 'Whether a person must approve each request for it.',
  version: 'Version of the catalog, from 1.',
  published_at: 'When this version was published.',
  content_hash:
    '`sha256:` and hex of SHA-256 over the RFC 8785 form of the catalog without hash and signature.',
  results: 'What was found, in the order asked for.',
  query: 'What was asked, with defaults filled in.',
  security_profile: 'The `trust_level` of the gate.',
  catalog_version: 'Version of the catalog in which the offer stands.',
  catalog_content_hash: '`content_hash` of that catalog.',
  catalog_signature: '`signature` of that catalog.',

  // Decisions
  passport: 'The token that the agent showed.',
  passport_token: 'The token that the agent showed.',
  request:
    'What the agent wants to do. Members other than those named count for the hash and for PII controls.',
  context: 'What else `request` of a check would hold, such as `domain` and `estimated_cost_usd`.',
  'Request.permission_key': 'The permission asked for: `<area>:<action>`. Required at a gate.',
  'Request.requested_action': 'The same as `permission_key`.',
  'Request.action': 'The same as `permission_key`.',
  'Request.amount': 'What the agent wants to spend, in USD with at most 6 decimals.',
  'Request.amount_usd': 'The same as `amount`.',
  'Request.estimated_cost_usd': 'The same as `amount`.',
  'Request.currency':
    'Currency of the amount. Only USD is supported; anything else is BLOCK `currency_unsupported`.',
  'Request.domain': 'Host that the request is for; checked against `allowed_domains`.',
  'Request.url': 'Absolute http, https, ws or wss URL; its host counts as `domain`.',
  'Request.idempotency_key':
    'However often the request is sent with the same key, it is charged once, and a repeat gets the first PERMIT again.',
  'Request.approval_id': 'The approved approval of an earlier SUSPEND of the same request.',
  'Request.gate_id':
    'The gate that `/enforce` decides for; absent: the passport alone is checked. Elsewhere it must be the gate in the address.',
  'Request.proof': 'Proof that the agent holds the key of its passport. Not part of the request hash.',
  requested_action: 'The permission asked for.',
  decision: 'What was decided.',
  reason: 'Why not; null: permitted.',
  attestation_id: 'Id of the record of this decision, `att_…`; null for a SUSPEND.',
  constraints_evaluated: 'What was checked, in this order. The last one decided.',
  guardrails_evaluated: 'What was checked, in this order. The last one decided.',
  all_passed: 'Whether nothing stands in the way.',
  detail: 'The reason as a sentence.',
  retry: 'Whether trying again can help.',
  retryable: 'Whether the same request can succeed later.',
  after_ms: 'In how many milliseconds; null: unknown.',
  'Block.limit': 'The limit that was missed, in its unit.',
  'GateTest.limit': 'The limit that was missed, in its unit.',
  used: 'How much of the limit was used already.',
  requested: 'How much more was asked for.',
  reset_at: 'When the window of the limit ends; null: it has none.',

  // Approvals
  approval_id: 'Id of the approval, `appr_…`.',
  'Approval.status': '`approved` until it is used, denied or its time is over.',
  'Approval.passport_id': 'The passport whose agent asks.',
  'Approval.agent_id': 'The agent that asks, as its owner named it.',
  'Approval.gate_id': 'The gate that it asks at.',
  'Approval.permission_key': 'What it asks for.',
  'Approval.created_at': 'When it asked.',
  'Approval.expires_at': 'When the time to say yes or no is over; once approved, the time to use it.',
  amount_usd: 'What it wants to spend; null: no amount. Held until the approval ends.',
  resolved_at: 'When a person said yes or no; null: nobody did.',
  resolved_by: '`key_id` of the API key that did; null: nobody did.',
  note: 'What that person wrote; null: nothing.',
  'ApprovalResolution.note': "Why, for the record and for the agent's owner. At most 500 characters.",

  // Attestations
  attestations: 'The records of this page.',
  next_cursor: '`cursor` of the page behind this one; null: there is none.',
  'Attestation.id': 'Id of the record, `att_…`.',
  'Attestation.passport_id': 'The passport that was shown; null where it did not verify.',
  'Attestation.gate_id': 'The gate that decided; null: none was asked.',
  'Attestation.permission_key': 'The permission that was asked for; null: none.',
  chain_id: 'The passport, gate or account whose chain this record belongs to.',
  sequence: 'Place in the chain, from 1.',
  hash: '`sha256:` and hex of SHA-256 over the RFC 8785 form of the record without hash and signature.',
  previous_attestation_hash: '`hash` of the record before it in the chain; null: it is the first.',
  request_hash: '`sha256:` and hex of SHA-256 over the RFC 8785 form of the request.',
  signature: 'base64url of the Ed25519 signature over the hash; docs/verify.md says over which text exactly.',
  signing_key_id: '`kid` of the key that signed, in the JWKS.',
  amount_micro_usd: 'What was to be spent, in millionths of a USD; null: no amount.',
  pii: 'Where personal data was found. Never what.',
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
  'Export.since': 'Each chain starts at its first record not older; null: at its first record.',
  'Export.created_at': 'When the export was made.',
  key_ids: '`kid` of every key that may have signed a record of the export.',
  chains: 'The chains in ascending order of `chain_id`, each with its records; at the end, how many.',
  first_sequence: '`sequence` of the first record of the chain that follows.',
  last_sequence: '`sequence` of the last one.',
  last_hash: '`hash` of the last one.',
  end: 'That nothing is missing at the end.',
  records: 'How many records there are in all.',

  // Audit of administration
  audit_id: 'Id of the entry, `aud_…`.',
  actor: 'Who made the change.',
  'Actor.type':
    '`api_key`: with this key; `access_token`: with a token that is bound to it. Others may come, such as people with a login.',
  'Actor.id': 'Id of the actor: the `key_id` of the API key.',
  'Actor.client_id': 'The OAuth client to which the access token was given; null: no token.',
  operation: 'What was done: an operationId of this document.',
  target: 'Id of what was changed.',
  before:
    'What was there before, as this API shows it, without secrets; null: nothing. With `after`, both hold only what differs.',
  after: 'What is there now, likewise; null: nothing.',
  entries: 'The entries of this page.',
  previous_hash: '`hash` of the entry before it in the chain; null: it is the first.',
  'AuditEntry.hash':
    '`sha256:` and hex of SHA-256 over the RFC 8785 form of the entry without hash and signature.',
  'AuditEntry.signature':
    'base64url of the Ed25519 signature over the hash; docs/audit.md says over which text exactly.',
  'AuditEntry.created_at': 'When it was changed.',

  // Issuers
  issuer_id: 'Id of the issuer, `iss_…`.',
  'ReferenceIssue.issuer_id': "Id of the issuer, `iss_…`. Default: the account's own default issuer.",
  domain: 'Host name that the issuer claims; nobody verified it.',
  passport_count: 'Passports issued in its name.',
  active_passports: 'Of them active now.',
  revoked_passports: 'Of them revoked.',
  last_passport_issued_at: 'When the last one was issued; null: none yet.',

  // API keys, accounts, signing keys
  key_id: 'Id of the API key, `key_…`.',
  key: 'The API key itself. Shown this once; only its hash is kept.',
  scopes: 'What the key may do.',
  mode: 'Which of two separate worlds it belongs to.',
  prefix: 'First 12 characters of the key, to recognise it by.',
  last4: 'Last 4 characters of the key.',
  overlap_s: 'How long the old one goes on working beside the new one, in seconds. Default 0.',
  account_id: 'Id of the account, `acct_…`.',
  plan: 'What the account has bought; decides its limits.',
  limits:
    'Requests of the account per UTC minute and day: the numbers of its plan, or its own, which only the enterprise plan can have; null: no limit.',
  api_key: 'The first key of the account.',
  keys: 'All keys, whatever their purpose.',
  kty: 'Key type (RFC 8037).',
  crv: 'Curve (RFC 8037).',
  alg: 'Algorithm (RFC 7518).',
  use: 'What the key is for (RFC 7517).',
  kid: 'RFC 7638 thumbprint of the key.',
  purpose: 'What the key signs. It verifies nothing else.',
  x: 'base64url of the 32 bytes of the public key.',
  nbf: 'From when on the key signs, in Unix seconds.',
  not_before: 'From when on the next key signs.',
  previous: 'The key that it replaces.',
  retired_at: 'From when on the key no longer signs; null: it does, or will.',
  compromised: 'Whether somebody else may have the private key: what it signed proves nothing.',

  // Webhooks
  webhook_id: 'Id of the webhook, `wh_…`.',
  url: 'Where events are sent, over https; null: nowhere, its deliveries wait to be fetched.',
  'WebhookUpdate.url': 'Where events are sent, over https.',
  events: 'The events that it is told of.',
  disabled_reason:
    'Why nothing is sent: `owner` disabled it; `gone`: it answered 410; `failing`: no success for three days; `unread`: nobody fetched for an hour; null: it is enabled.',
  failing_since: 'When the first attempt after the last success failed; null: none did.',
  secret: 'With which deliveries are signed: `whsec_` and base64. Shown this once; kept sealed.',
  'WebhookTest.event': 'What to send. Default: the first event that the webhook is told of.',
  'WebhookRecovery.since': 'Whatever was made from this time on.',
  requeued: 'How many deliveries go out again.',
  has_more: 'Whether there are more: call again.',
  delivery_id: 'Id of the delivery, `dlv_…`.',
  event_id:
    'Id of the event, `evt_…`: the `webhook-id` header, the same in every attempt and at every webhook.',
  event: 'What happened.',
  'Delivery.status':
    '`pending`: it waits for an attempt, or one is under way; `failed`: given up until it is sent again.',
  payload: 'The body that is sent.',
  data: 'What happened, as far as the event says it.',
  window: 'Which window of the limit: the UTC day or the UTC month.',
  limit_usd: 'The limit, in USD.',
  spent_usd: 'What was spent in this window, in USD.',
  fraction: '`spent_usd` of `limit_usd`, cut to four decimals.',
  'PassportRevokedEvent.reason': 'Why, for the record.',
  attempt_count: 'How many attempts there were.',
  attempts: 'The newest attempts, the last one first.',
  attempt: 'Number of the attempt, from 1.',
  started_at: 'When the attempt began.',
  latency_ms: 'How long it took, in milliseconds.',
  status_code: 'HTTP status of the answer; null: there was none.',
  'Delivery.error': 'Why there was no answer; null: there was one.',
  response: 'The first KiB of the answer, without what looks like a secret; null: there was none.',
  next_attempt_at: 'When the next attempt is due; null: none is.',

  // Everywhere
  id: 'The id of this object under its short name.',
  name: 'As people call it.',
  description: 'For people.',
  status: 'The state it is in.',
  created_at: 'When it was made.',
  updated_at: 'When it was last changed.',
  items: 'The objects of this page, newest first.',
  total: 'How many there are in all.',
  limit: 'How many are wanted at most.',
  offset: 'How many are skipped.',
  error: 'What went wrong.',
  code: 'For programs to branch on; a closed list, see docs/errors.md.',
  message: 'For people.',
  'Error.status': 'The HTTP status.',
  param: 'The field or parameter at fault, where one is.',
  request_id: 'Names the request; also in `X-Request-Id`.',
  draining: 'Whether this process is about to stop. It still answers; send it nothing new.',
  database: 'Whether PostgreSQL can be reached and is migrated.',
  push: 'Whether changes are pushed to the sidecars; without it they pull.',
  appending:
    'Whether this process adds to the chains of records: working, or stopped after a fault of its own until it is restarted.',
  push_lost: 'How many pushed messages could not be sent.',
  'Readiness.sidecars': 'The sidecars of this service; null: unknown.',
  connected: 'How many of them are connected.',
  clock_offset_ms_max: 'How far the clock of one of them is off, at most, in milliseconds.',

  // Parameters
  capability: 'A permission key, a bare area, or a category.',
  max_price_cents: 'Only what costs at most this.',
  min_uptime_bp: 'Only what promises at least this uptime, in basis points (10000 is 100 %).',
  max_response_time_ms: 'Only what promises at most this response time.',
  pricing_model: 'Only what is priced by this model.',
  min_security_profile: 'Only gates of at least this trust level.',
  sort: 'By what the results are sorted; what has no value stands last.',
  since: 'Only records from this time on.',
  until: 'Only records before this time.',
  cursor: '`next_cursor` of the same query.',
  format: 'How the chains are written.',
  wait_ms: 'For how long the answer may wait for all connected sidecars to know, in milliseconds.',
};

/** Whose id stands in a path, by the collection before it. */
const pathIds: Readonly<Record<string, string>> = {
  passports: 'passport_id',
  gates: 'gate_id',
  attestations: 'Attestation.id',
  issuers: 'issuer_id',
  templates: 'template_id',
  'api-keys': 'key_id',
  accounts: 'account_id',
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
  const description = meaningOf('', owner ?? name);
  const timed = isTime(name, schema) ? { ...schema, format: 'date-time' } : schema;
  return { ...parameter, schema: timed, ...(description === undefined ? {} : { description }) };
}
