import { type TSchema, Type } from 'typebox';
import { ExportAnswer } from '../../shared/attestation/export.ts';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { limits } from '../../shared/model/limits.ts';
import { CheckBody, GateTestBody } from '../../shared/wire/check.ts';
import { CheckBatchBody } from '../../shared/wire/check-batch.ts';
import type { HeaderName, RequestHeaderName } from './headers.ts';
import type { Tag } from './tags.ts';

/** What is published of an operation besides what its schemas and its scope say. */
export interface OperationText {
  /** The name of the function in a generated client; unique. */
  readonly id: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  /**
   * What can go wrong with this operation in particular; the rest is derived from its route, in
   * route-errors.ts.
   */
  readonly errors?: readonly ErrorCode[];
  /** A body that the route reads by itself, not by validation. */
  readonly body?: TSchema;
  /** What a 200 looks like where it is not, or not only, JSON: by content type. */
  readonly contents?: Readonly<Record<string, TSchema>>;
  /** Headers of a request that count here; with `If-None-Match`, the answer can be 304. */
  readonly requestHeaders?: readonly RequestHeaderName[];
  /** Headers of a success. */
  readonly headers?: readonly HeaderName[];
}

/** Public, and still a question to the database. */
const ofPublicReads = ['invalid_request', 'internal_error', 'overloaded', 'service_unavailable'] as const;

/** An answer to an approval. */
const ofAnswers = [
  'approval_not_found',
  'approval_already_resolved',
  'approval_already_answered',
  'not_an_approver',
  'passkey_required',
  'passkey_refused',
] as const;

/** Public changes from our own pages, such as the first step of a login. */
const ofLoginSteps = [
  'invalid_request',
  'service_unavailable',
  'invalid_json',
  'body_too_large',
  'unsupported_media_type',
  'cross_site_request',
] as const;

/** Public, and they begin a session. */
const ofLogins = [...ofLoginSteps, 'internal_error', 'overloaded', 'account_suspended'] as const;

/**
 * Every public operation, by method and route. A route that is missing here is left out of the document, and
 * test/api/openapi.test.ts says so: only what sidecars call (`/v1/sync/*`) is meant to be missing.
 */
export const operations: Readonly<Record<string, OperationText>> = {
  'POST /v1/passports': {
    id: 'issuePassport',
    tag: 'Passports',
    summary: 'Issue a passport',
    description:
      'Takes three bodies, told apart by their fields: with `subject` the machine description, with `agent_type` the unattended variant, else ' +
      'the reference. The answer contains two secrets, each returned only once: `jwt`, which the agent presents, and `private_key`, which the ' +
      'service generates, returns and does not store. Send `public_key` instead, and the service never has a private key.',
    errors: ['issuer_not_found', 'wallet_not_found', 'agent_id_conflict'],
  },
  'POST /api/passports': {
    id: 'issuePassportUnattended',
    tag: 'Passports',
    summary: 'Issue a passport without a person present',
    description:
      'Takes the unattended variant, and the machine description where the body has `subject`. Answers like `POST /v1/passports`.',
    errors: ['issuer_not_found', 'wallet_not_found', 'agent_id_conflict'],
  },
  'GET /v1/passports': {
    id: 'listPassports',
    tag: 'Passports',
    summary: 'List passports, newest first',
  },
  'GET /v1/passports/:id': {
    id: 'getPassport',
    tag: 'Passports',
    summary: 'Get a passport',
    errors: ['passport_not_found'],
  },
  'GET /v1/passports/:id/verify': {
    id: 'verifyPassport',
    tag: 'Passports',
    summary: 'Ask whether a passport is valid now',
    description: 'An invalid passport is answered with 200 and the most severe reason.',
    errors: ['passport_not_found'],
  },
  'POST /v1/passports/:id/revoke': {
    id: 'revokePassport',
    tag: 'Passports',
    summary: 'Revoke a passport for ever',
    description:
      'Takes effect at every sidecar within 100 ms of the answer, or within 2 s without push; with `wait_ms` the answer waits for them. ' +
      'Repeating it answers the first revocation unchanged.',
    errors: ['passport_not_found'],
  },
  'POST /v1/passports/:id/suspend': {
    id: 'suspendPassport',
    tag: 'Passports',
    summary: 'Suspend an active passport',
    errors: ['passport_not_found', 'passport_state_conflict'],
  },
  'POST /v1/passports/:id/reactivate': {
    id: 'reactivatePassport',
    tag: 'Passports',
    summary: 'Reactivate a suspended passport',
    description:
      'A passport of another issuer is reactivated after a revocation, too: its subject has no other.',
    errors: ['passport_not_found', 'agent_id_conflict', 'passport_state_conflict'],
  },
  'POST /v1/owners/:owner/suspend': {
    id: 'suspendOwner',
    tag: 'Passports',
    summary: 'Suspend all passports of an owner',
    description:
      'Also those that are issued or first seen later. The status of each passport stays its own. Repeating it changes nothing.',
  },
  'POST /v1/owners/:owner/reactivate': {
    id: 'reactivateOwner',
    tag: 'Passports',
    summary: 'Reactivate the passports of an owner',
    description: 'A passport that was suspended by itself stays suspended.',
  },

  'POST /v1/passports/:id/wallet': {
    id: 'setPassportWallet',
    tag: 'Wallets',
    summary: 'Put a passport into a wallet, or out of any',
    description:
      'From now on it draws on this wallet and those above it, as soon as sidecars learn of a revocation. What it has spent stays where it ' +
      'was taken from.',
    errors: ['passport_not_found', 'wallet_not_found', 'passport_state_conflict'],
  },

  'POST /v1/wallets': {
    id: 'createWallet',
    tag: 'Wallets',
    summary: 'Create a wallet',
    description:
      'A budget of many passports. Every PERMIT of a passport in it takes from it and from all wallets above it, or from none of them.',
    errors: ['wallet_not_found', 'precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
  },
  'GET /v1/wallets': {
    id: 'listWallets',
    tag: 'Wallets',
    summary: 'List wallets, newest first',
    description: 'With `parent_wallet_id` those below that wallet; with an empty one those without a parent.',
  },
  'GET /v1/wallets/:id': {
    id: 'getWallet',
    tag: 'Wallets',
    summary: 'Get a wallet, with what is left of each limit',
    errors: ['wallet_not_found'],
    headers: ['ETag'],
  },
  'GET /v1/wallets/:id/statement': {
    id: 'getWalletStatement',
    tag: 'Wallets',
    summary: 'What was spent from a wallet, by passport, gate and permission',
    description:
      'The sums of the records of this wallet and of those below it, of PERMITs from `since` up to `until`, at most 32 days. At most 1,000 ' +
      'lines in the order of their ids; totals are of all. The rest is asked for with `page`.',
    errors: ['wallet_not_found'],
  },
  'PUT /v1/wallets/:id': {
    id: 'updateWallet',
    tag: 'Wallets',
    summary: 'Change or move a wallet',
    description:
      'A JSON merge patch. What is lowered or moved binds units that are not leased yet; what was taken stays where it was taken from.',
    errors: ['wallet_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
  },
  'POST /v1/wallets/:id/freeze': {
    id: 'freezeWallet',
    tag: 'Wallets',
    summary: 'Block all passports of a wallet and of those below it',
    description: 'Binds sidecars as fast as a revocation.',
    errors: ['wallet_not_found'],
  },
  'POST /v1/wallets/:id/unfreeze': {
    id: 'unfreezeWallet',
    tag: 'Wallets',
    summary: 'Let a frozen wallet be used again',
    errors: ['wallet_not_found'],
  },
  'DELETE /v1/wallets/:id': {
    id: 'deleteWallet',
    tag: 'Wallets',
    summary: 'Delete an empty wallet',
    errors: ['wallet_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
  },

  'POST /v1/gates': {
    id: 'createGate',
    tag: 'Gates',
    summary: 'Create a gate',
    description:
      '`trust_level` and `trust_profile` are synonyms; one of them is required unless the template has it. A constraint that ' +
      'this build does not enforce is refused, never ignored.',
    errors: ['template_not_found', 'precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
  },
  'GET /v1/gates': { id: 'listGates', tag: 'Gates', summary: 'List gates, newest first' },
  'GET /v1/gates/:id': {
    id: 'getGate',
    tag: 'Gates',
    summary: 'Get a gate with its constraints and counts',
    errors: ['gate_not_found'],
    headers: ['ETag'],
  },
  'PUT /v1/gates/:id': {
    id: 'updateGate',
    tag: 'Gates',
    summary: 'Change a gate',
    description:
      'A JSON merge patch (RFC 7396): absent members stay unchanged, null removes. Reaches every sidecar as fast as a revocation.',
    errors: ['gate_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
  },
  'DELETE /v1/gates/:id': {
    id: 'deleteGate',
    tag: 'Gates',
    summary: 'Delete a gate',
    errors: ['gate_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
  },
  'POST /v1/gates/:id/test': {
    id: 'testGate',
    tag: 'Gates',
    summary: 'Ask what a gate would decide',
    description:
      'The same decision as a check, in another format. Reads live counters without using them, opens no approval, and ignores an ' +
      '`idempotency_key`; the record is marked as a test.',
    errors: ['gate_not_found'],
    body: GateTestBody,
  },

  'POST /v1/gates/:id/catalog': {
    id: 'publishCatalog',
    tag: 'Catalogs',
    summary: "Publish the next version of a gate's catalog",
    description:
      'Versions are immutable and count from 1. From then on a permission that is not in the catalog is blocked at the gate.',
    errors: ['gate_not_found'],
  },
  'GET /v1/gates/:id/catalog': {
    id: 'getCatalog',
    tag: 'Catalogs',
    summary: 'Get a catalog: the newest, or the given version',
    description:
      'Its signature verifies with a key of purpose `catalog` of the JWKS. Without `version` the newest.',
    errors: [...ofPublicReads, 'gate_not_found', 'catalog_not_found'],
    requestHeaders: ['If-None-Match'],
    headers: ['ETag', 'Cache-Control'],
  },

  'GET /v1/discover': {
    id: 'discoverGates',
    tag: 'Discovery',
    summary: 'Find gates by a capability, with their prices',
    description:
      'A capability is a permission key, a bare area (`orders`) or a category. Each result carries the hash, signature and key id of its ' +
      'catalog, so that it can be verified without trust in this service. `offset` reaches the first 1,000; `next_cursor` leads on ' +
      'from any page. Searches share a small part of the service: 503 `overloaded` says to try again in a moment.',
    errors: ofPublicReads,
  },

  'POST /v1/gates/:id/check': {
    id: 'checkGate',
    tag: 'Enforcement',
    summary: 'Decide whether this passport may do this at this gate, now',
    description:
      'PERMIT, SUSPEND and BLOCK are all a 200. A sidecar answers it much faster, from the same decision core. With ' +
      '`request.idempotency_key` the request is charged once, and a repeat gets the first PERMIT again.',
    errors: ['gate_not_found', 'idempotency_conflict'],
    body: CheckBody,
  },
  'POST /v1/gates/:id/check/batch': {
    id: 'checkGateBatch',
    tag: 'Enforcement',
    summary: 'Decide many requests at one gate in one call',
    description:
      `1 to ${limits.batchChecksMax} checks, in a body of at most 1 MiB. \`results\` holds one answer for each, in the same order: a decision ` +
      'as `check` answers it, or `{ error }`. Each is decided and recorded as if it came alone, in order; what is wrong with one harms no other.',
    errors: [],
    body: CheckBatchBody,
  },
  'GET /v1/authzen/vocabulary': {
    id: 'getAuthzenVocabulary',
    tag: 'Enforcement',
    summary: 'Get the AuthZEN vocabulary of the account',
  },
  'PUT /v1/authzen/vocabulary': {
    id: 'setAuthzenVocabulary',
    tag: 'Enforcement',
    summary: 'Replace the AuthZEN vocabulary of the account',
    description:
      'What the resources and actions of AuthZEN evaluations and searches are called here: which gate decides about a resource, and which ' +
      'permission an action is. The first entry that fits counts. See docs/integrations/authzen.md.',
  },
  'POST /v1/enforce': {
    id: 'enforce',
    tag: 'Enforcement',
    summary: 'Decide without a gate in the URL',
    description:
      'With `request.gate_id` like a check at that gate; without it the passport alone is checked.',
    errors: ['gate_not_found', 'idempotency_conflict'],
    body: CheckBody,
  },

  'GET /v1/approvals': {
    id: 'listApprovals',
    tag: 'Approvals',
    summary: 'List approvals at your gates, newest first',
    description:
      'With `status` those that have this status now: an approval that nobody resolved in time is `expired`. With `waiting_for=me` ' +
      'those that wait for an answer of the caller.',
  },
  'GET /v1/approvals/:id': {
    id: 'getApproval',
    tag: 'Approvals',
    summary: 'Get an approval',
    errors: ['approval_not_found'],
  },
  'POST /v1/approvals/:id/approve': {
    id: 'approveApproval',
    tag: 'Approvals',
    summary: 'Approve a request',
    description:
      'The agent then sends the same request once more, with `approval_id`, before the new `expires_at`. Everything but the ' +
      'approval is checked again then. Where the gate wants several people, it stays pending until as many have approved.',
    errors: ofAnswers,
  },
  'POST /v1/approvals/:id/undo': {
    id: 'undoApproval',
    tag: 'Approvals',
    summary: 'Take an answer back',
    description:
      'For 5 s after the answer, by the key or person that gave it, unless the approval was used. It is pending again.',
    errors: ['approval_not_found', 'approval_already_resolved'],
  },
  'POST /v1/approvals/:id/deny': {
    id: 'denyApproval',
    tag: 'Approvals',
    summary: 'Deny a request',
    description:
      'The money held for it is released at once. One denial ends it, however many people have to approve.',
    errors: ofAnswers,
  },

  'GET /v1/mcp-pins': {
    id: 'listMcpPins',
    tag: 'MCP pins',
    summary: 'List pinned tools of MCP servers, newest first',
    description: 'With `gate_id` those behind this gate, with `status` those that have this status now.',
  },
  'GET /v1/mcp-pins/:id': {
    id: 'getMcpPin',
    tag: 'MCP pins',
    summary: 'Get a pinned tool, with what has changed',
    errors: ['mcp_pin_not_found'],
  },
  'POST /v1/mcp-pins': {
    id: 'reportMcpTools',
    tag: 'MCP pins',
    summary: 'Report tools of an MCP server',
    description:
      'For guards before MCP servers. A tool is pinned as it is first seen; once a list was whole, whatever is not as it was ' +
      'pinned waits for a person. A report that changes nothing writes nothing.',
    errors: ['gate_not_found', 'mcp_pins_full'],
  },
  'POST /v1/mcp-pins/:id/accept': {
    id: 'acceptMcpPin',
    tag: 'MCP pins',
    summary: 'Accept a change of a tool',
    description: 'Guards let calls of the tool pass again within seconds.',
    errors: ['mcp_pin_not_found', 'mcp_pin_state_conflict'],
  },
  'POST /v1/mcp-pins/:id/reject': {
    id: 'rejectMcpPin',
    tag: 'MCP pins',
    summary: 'Reject a change of a tool',
    description: 'What was accepted before stays in force. The same change does not ask again.',
    errors: ['mcp_pin_not_found', 'mcp_pin_state_conflict'],
  },

  'POST /v1/approvals/standing': {
    id: 'createStandingApproval',
    tag: 'Approvals',
    summary: 'Approve requests ahead',
    description:
      'Requests of this passport for this permission at this gate, of at most `each_usd`, are permitted without asking until `total_usd` is ' +
      'spent or `expires_at` comes. Everything but the approval is still checked. It ends with the policy of the gate: a change of trust level, ' +
      'constraints, routes or catalog ends it.',
    errors: ['gate_not_found', 'passport_not_found', 'not_an_approver'],
  },
  'GET /v1/approvals/standing': {
    id: 'listStandingApprovals',
    tag: 'Approvals',
    summary: 'List standing approvals at your gates, newest first',
    description: 'With `status` those that have this status now.',
  },
  'GET /v1/approvals/standing/:id': {
    id: 'getStandingApproval',
    tag: 'Approvals',
    summary: 'Get a standing approval, with what is used of it',
    errors: ['approval_not_found'],
  },
  'DELETE /v1/approvals/standing/:id': {
    id: 'endStandingApproval',
    tag: 'Approvals',
    summary: 'End a standing approval at once',
    description:
      'Sidecars permit nothing by it any more, as soon as they learn of a revocation. What was permitted stays permitted. One that has ended ' +
      'already is answered as it is.',
    errors: ['approval_not_found'],
  },

  'GET /v1/attestations': {
    id: 'listAttestations',
    tag: 'Audit',
    summary: 'List attestations, newest first',
    description:
      'Records of the passports and of the gates of the caller. `next_cursor` is the cursor of the next page; null on the last page. ' +
      'With `reason`, `permission_key` or `agent_id` a page may be short or empty although others follow.',
  },
  'GET /v1/attestations/export': {
    id: 'exportAttestations',
    tag: 'Audit',
    summary: 'Export whole chains, for offline verification',
    description:
      'The complete chains of the passports, gates and account of the caller, streamed from one snapshot. `format` decides the content type; ' +
      'docs/verify.md describes json and jsonl and how to verify them, docs/exports.md csv and the formats that others collect.',
    contents: {
      'application/x-ndjson': Type.String(),
      'application/json': ExportAnswer,
      'text/csv': Type.String(),
    },
    headers: ['Content-Disposition'],
  },
  'GET /v1/attestations/:id/proof': {
    id: 'getAttestationProof',
    tag: 'Audit',
    summary: 'Prove that a record is in the transparency log (C2SP tlog-proof)',
    description:
      'The first logged head of its chain at or behind the record, with its path to the newest checkpoint that the quorum of the witnesses cosigned. ' +
      'The records between both are in an export. docs/log.md describes how to verify it.',
    contents: { 'text/plain': Type.String() },
    errors: ['attestation_not_found', 'proof_not_ready'],
  },
  'GET /v1/statistics/decisions': {
    id: 'getDecisionStatistics',
    tag: 'Statistics',
    summary: 'Count decisions by time, outcome and reason',
    description:
      'Decisions at your gates, and those without a gate that you may read, by the time at which they were made. Every bucket from `from` to `to` ' +
      'is in the answer, at most 1,440. Minutes are kept for two days, hours and days for 400. Gate tests do not count.',
    errors: ['gate_not_found'],
  },
  'GET /v1/gates/:id/usage': {
    id: 'getGateUsage',
    tag: 'Statistics',
    summary: 'See what the limits of a gate have left',
    description:
      'The limits of the gate in their windows of now. With `passport_id` also what is counted for that passport, and the limits of its own where it ' +
      'is yours and you may read it. `limit` = `used` + `leased` + `remaining`, unless the limit was lowered. Nothing is reserved by reading.',
    errors: ['gate_not_found', 'passport_not_found'],
  },
  'GET /v1/gates/:id/policies': {
    id: 'listGatePolicies',
    tag: 'Gates',
    summary: 'List the policies that a gate has had, newest first',
    description:
      'One for each change of what decides: trust level, constraints, routes or catalog. Policies are kept for ever; records name theirs by its hash.',
    errors: ['gate_not_found'],
  },
  'GET /v1/policies/:hash': {
    id: 'getPolicy',
    tag: 'Gates',
    summary: 'Get a policy by its hash',
    description:
      'Signed when it was first used. Found are policies that a gate of the caller has had, deleted gates included.',
    errors: ['policy_not_found'],
  },
  'GET /v1/events': {
    id: 'streamEvents',
    tag: 'Statistics',
    summary: 'Follow what changes',
    description:
      'Server-sent events without an end. Each is `{ type, id, at }` and says what to read again: `approval`, `gate`, `passport`, `revocation` ' +
      '(of a passport), `record` (of a gate), `delivery` (of a webhook), `sidecar`, as far as the scopes of the caller read it. `id` is null where ' +
      'several changed. `reset`: events may be missing, read everything again. `closed`: the service ends the stream, with a `reason`. An event may ' +
      'be lost, so read now and then without one.',
    contents: { 'text/event-stream': Type.String() },
    requestHeaders: ['Last-Event-ID'],
  },
  'GET /v1/sidecars': {
    id: 'listSidecars',
    tag: 'Statistics',
    summary: 'List the sidecars of your account',
    description: 'Those last heard of first. A sidecar serves both modes.',
  },
  'GET /v1/audit': {
    id: 'listAuditEntries',
    tag: 'Audit',
    summary: 'List who changed what, newest first',
    description:
      'One entry for each change through this API, in the account and mode of the caller: who, what, before and after, when, in which request. ' +
      'Entries are hash-linked and signed. See docs/audit.md.',
  },
  'GET /v1/audit/export': {
    id: 'exportAudit',
    tag: 'Audit',
    summary: 'Export who changed what, for offline verification',
    description:
      "The chain of the caller's account and mode as jsonl, from one snapshot. `agent-trust attestations verify` verifies it too; docs/audit.md " +
      'describes it.',
    contents: { 'application/x-ndjson': Type.String() },
    headers: ['Content-Disposition'],
  },
  'GET /v1/attestations/retention': {
    id: 'getRetention',
    tag: 'Audit',
    summary: 'Get how long the account keeps records in the database',
  },
  'PUT /v1/attestations/retention': {
    id: 'setRetention',
    tag: 'Audit',
    summary: 'Set how long the account keeps records in the database',
    description:
      'Records of older months leave the database with the next archive of the operator, which is written and verified before. Exports ' +
      'begin behind it and say so; nothing is removed without an archive.',
  },
  'GET /v1/attestations/:id': {
    id: 'getAttestation',
    tag: 'Audit',
    summary: 'Get an attestation',
    errors: ['attestation_not_found'],
  },
  'POST /v1/attestations/:id/outcome': {
    id: 'reportOutcome',
    tag: 'Money',
    summary: 'Report the outcome of what a PERMIT allowed',
    description:
      'Of a held PERMIT it settles `amount` (`served`), or all goes back (`failed`). Of another PERMIT it is recorded, and no money moves. ' +
      'The first outcome stands: the same again is answered as before, a different one is 409. Sidecars take outcomes too.',
    errors: ['attestation_not_found', 'outcome_conflict', 'amount_exceeds_hold', 'spend_limit_exceeded'],
  },
  'GET /v1/attestations/:id/outcome': {
    id: 'getOutcome',
    tag: 'Money',
    summary: 'Get what a PERMIT counts now, and why',
    errors: ['attestation_not_found'],
  },
  'POST /v1/attestations/:id/hold/extend': {
    id: 'extendHold',
    tag: 'Money',
    summary: 'Extend a hold',
    description: 'It ends `expires_in_s` from now, at most 30 days behind the decision.',
    errors: ['attestation_not_found', 'hold_not_found', 'outcome_conflict'],
  },
  'POST /v1/attestations/:id/refund': {
    id: 'refundPermit',
    tag: 'Money',
    summary: 'Refund what a PERMIT counts, or a part of it',
    description:
      'Of a PERMIT that was settled, or not held. The money goes back into the windows that it was taken from, where these have not ended.',
    errors: ['attestation_not_found', 'outcome_conflict', 'amount_exceeds_hold'],
  },
  'GET /v1/holds': {
    id: 'listHolds',
    tag: 'Money',
    summary: 'List holds at your gates, newest first',
  },
  'GET /v1/outcomes': {
    id: 'listOutcomes',
    tag: 'Money',
    summary: 'List outcomes that sidecars have taken and that were refused, or wait for their PERMITs',
  },

  'POST /v1/issuers': {
    id: 'createIssuer',
    tag: 'Issuers',
    summary: 'Create an issuer',
    description:
      'With `federation` it is an issuer of others: its JWTs are passports wherever a passport is accepted. Its keys are read first.',
    errors: ['precondition_failed', 'wallet_not_found'],
    requestHeaders: ['If-None-Match: *'],
  },
  'GET /v1/issuers': { id: 'listIssuers', tag: 'Issuers', summary: 'List issuers, newest first' },
  'GET /v1/issuers/:id': {
    id: 'getIssuer',
    tag: 'Issuers',
    summary: 'Get an issuer with counts of its passports',
    errors: ['issuer_not_found'],
  },
  'PUT /v1/issuers/:id': {
    id: 'updateIssuer',
    tag: 'Issuers',
    summary: 'Change an issuer',
    description:
      'Only what is present changes; `federation` is replaced as a whole. Passports of a suspended issuer are blocked `issuer_untrusted`.',
    errors: ['issuer_not_found', 'wallet_not_found'],
  },
  'POST /v1/issuers/:id/revoke-subject': {
    id: 'revokeSubject',
    tag: 'Issuers',
    summary: 'Revoke a subject of another issuer',
    description:
      'Before or after it was first seen. Every token of it is blocked, future ones too, until its passport is reactivated.',
    errors: ['issuer_not_found'],
  },
  'POST /v1/issuers/:id/try-token': {
    id: 'tryToken',
    tag: 'Issuers',
    summary: 'Say what a token of another issuer would become',
    description:
      'Claim by claim, up to the first fault. With `gate_id`, for which the key needs `gates:read` too, also whether this gate ' +
      'trusts the issuer, the tier and the key of the token; `passport` is there where the gate refuses it. The token is ' +
      'neither stored nor recorded.',
    errors: ['issuer_not_found', 'gate_not_found'],
  },
  'POST /v1/issuers/:id/events': {
    id: 'receiveSecurityEvent',
    tag: 'Shared Signals',
    summary: 'Receive a security event of an issuer',
    description:
      'Shared Signals by push (RFC 8935): a security event token (RFC 8417) with `Content-Type: application/secevent+jwt`, signed ' +
      'with a key of that issuer, which is all that authenticates it. Taken once for each `jti`.',
    errors: [
      'issuer_not_found',
      'invalid_request',
      'internal_error',
      'overloaded',
      'service_unavailable',
      'rate_limited',
      'body_too_large',
      'unsupported_media_type',
    ],
  },

  'POST /v1/templates': {
    id: 'createTemplate',
    tag: 'Templates',
    summary: 'Create a template',
    errors: ['precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
  },
  'GET /v1/templates': {
    id: 'listTemplates',
    tag: 'Templates',
    summary: 'List templates, own and built-in',
  },
  'GET /v1/templates/:id': {
    id: 'getTemplate',
    tag: 'Templates',
    summary: 'Get a template',
    errors: ['template_not_found'],
  },

  'GET /v1/whoami': {
    id: 'whoAmI',
    tag: 'API keys',
    summary: 'Get what the calling key may do',
  },
  'POST /v1/api-keys': {
    id: 'createApiKey',
    tag: 'API keys',
    summary: 'Create an API key',
    description: 'It grants only scopes that the calling key holds itself. `key` is shown this once.',
  },
  'GET /v1/api-keys': { id: 'listApiKeys', tag: 'API keys', summary: 'List API keys, newest first' },
  'GET /v1/api-keys/:id': {
    id: 'getApiKey',
    tag: 'API keys',
    summary: 'Get an API key',
    errors: ['api_key_not_found'],
  },
  'POST /v1/api-keys/:id/roll': {
    id: 'rollApiKey',
    tag: 'API keys',
    summary: 'Replace an API key by a new one',
    description:
      'The old key stays valid for `overlap_s`; if the answer is lost, roll it again within that time. The new `key` is shown this once and expires when the old one would have without the roll.',
    errors: ['api_key_not_found'],
  },
  'DELETE /v1/api-keys/:id': {
    id: 'deleteApiKey',
    tag: 'API keys',
    summary: 'Delete an API key at once',
    errors: ['api_key_not_found'],
  },

  'POST /v1/session': {
    id: 'logIn',
    tag: 'People',
    summary: 'Log in: begin a browser session',
    description:
      'Answers with the session and sets its cookie. `login_failed` says nothing about what is wrong; `totp_required` asks for the same again ' +
      'with `totp_code`. Send it as every change of a session: with `X-Agent-Trust-Console: 1`, from a page of this service. See docs/people.md.',
    errors: [...ofLogins, 'login_failed', 'totp_required', 'rate_limited'],
    headers: ['Set-Cookie'],
  },
  'GET /v1/login-methods': {
    id: 'getLoginMethods',
    tag: 'People',
    summary: 'List the ways to log in besides a password',
    description: 'What the login page offers.',
  },
  'POST /v1/session/oidc/begin': {
    id: 'beginOidcLogin',
    tag: 'People',
    summary: 'Begin a login with the identity provider',
    description:
      'Send the browser to `authorization_url`. The answer sets a cookie that binds the login to this browser for ten minutes. Send it like a ' +
      'login. `service_unavailable` where the provider cannot be asked.',
    errors: ofLoginSteps,
    headers: ['Set-Cookie'],
  },
  'POST /v1/session/oidc': {
    id: 'logInWithOidc',
    tag: 'People',
    summary: 'Finish a login with the identity provider: begin a browser session',
    description:
      '`code`, `state` and `iss` are those with which the provider sent the browser back. Only active users are let in: by the verified email ' +
      'address the first time, and then by the identity that was linked. Of users of several accounts `account_id` names one, else ' +
      '`invalid_request` names the accounts. Sets the cookie of the session. Send it like a login.',
    errors: [...ofLogins, 'login_failed', 'rate_limited'],
    headers: ['Set-Cookie'],
  },
  'POST /v1/session/passkey/begin': {
    id: 'beginPasskeyLogin',
    tag: 'People',
    summary: 'Begin a login with a passkey',
    description:
      'Answers with what `navigator.credentials.get` takes (WebAuthn), and sets a cookie that binds its challenge to this browser for ten ' +
      'minutes. Send it like a login.',
    errors: [
      'invalid_request',
      'invalid_json',
      'body_too_large',
      'unsupported_media_type',
      'cross_site_request',
    ],
    headers: ['Set-Cookie'],
  },
  'POST /v1/session/passkey': {
    id: 'logInWithPasskey',
    tag: 'People',
    summary: 'Finish a login with a passkey: begin a browser session',
    description:
      'The passkey names its user and was unlocked by them, so neither a password nor a code is asked for. Sets the cookie of the session. ' +
      'Send it like a login.',
    errors: [...ofLogins, 'login_failed', 'rate_limited'],
    headers: ['Set-Cookie'],
  },
  'GET /v1/session': {
    id: 'getSession',
    tag: 'People',
    summary: 'Get the session of this request: who is logged in, and what they may do',
  },
  'DELETE /v1/session': {
    id: 'logOut',
    tag: 'People',
    summary: 'Log out: end the session of this request',
    headers: ['Set-Cookie'],
  },
  'GET /v1/sessions': {
    id: 'listSessions',
    tag: 'People',
    summary: 'List sessions, newest first',
    description: 'Your own; with `user_id` those of another user, which owners and admins may see.',
    errors: ['insufficient_scope', 'user_not_found'],
  },
  'DELETE /v1/sessions/:id': {
    id: 'endSession',
    tag: 'People',
    summary: 'End a session',
    description: 'Your own; owners and admins may end those of others too.',
    errors: ['insufficient_scope', 'session_not_found'],
  },
  'POST /v1/users': {
    id: 'inviteUser',
    tag: 'People',
    summary: 'Invite a user',
    description:
      '`invitation_url` is shown this once: send it to the user, who opens it within 7 days and chooses a password. You give no role that may do ' +
      'more than you may.',
    errors: ['email_conflict'],
  },
  'GET /v1/users': { id: 'listUsers', tag: 'People', summary: 'List users, newest first' },
  'GET /v1/users/:id': {
    id: 'getUser',
    tag: 'People',
    summary: 'Get a user',
    errors: ['user_not_found'],
  },
  'POST /v1/users/:id/invitation': {
    id: 'renewInvitation',
    tag: 'People',
    summary: 'Make a new invitation for a user who has not accepted yet',
    description: 'The earlier link ends. `invitation_url` is shown this once.',
    errors: ['user_not_found', 'user_state_conflict'],
  },
  'PATCH /v1/users/:id': {
    id: 'updateUser',
    tag: 'People',
    summary: 'Change name, role or status of a user',
    description:
      'Only what is present changes. A new role and `disabled` end all sessions of the user. The last active owner stays one.',
    errors: ['user_not_found', 'last_owner'],
  },
  'DELETE /v1/users/:id': {
    id: 'deleteUser',
    tag: 'People',
    summary: 'Delete a user with all of their sessions',
    errors: ['user_not_found', 'last_owner'],
  },
  'POST /v1/users/me/password': {
    id: 'changePassword',
    tag: 'People',
    summary: 'Change your own password',
    description: 'Ends all of your sessions, and begins another one here.',
    headers: ['Set-Cookie'],
  },
  'POST /v1/users/me/totp': {
    id: 'beginTotp',
    tag: 'People',
    summary: 'Get a secret for your authenticator app',
    description: 'No code is asked for until one was confirmed. `secret` is shown this once.',
    errors: ['user_state_conflict'],
  },
  'POST /v1/users/me/totp/confirm': {
    id: 'confirmTotp',
    tag: 'People',
    summary: 'Put your second factor in force, and get recovery codes',
    description:
      'From then on a login needs a code. Each recovery code works once; they are shown this once.',
    errors: ['user_state_conflict'],
  },
  'DELETE /v1/users/me/totp': {
    id: 'removeTotp',
    tag: 'People',
    summary: 'Remove your second factor',
    description: 'Asks for your password once more.',
  },
  'GET /v1/users/me/passkeys': {
    id: 'listPasskeys',
    tag: 'People',
    summary: 'List your own passkeys, newest first',
  },
  'POST /v1/users/me/passkeys/begin': {
    id: 'beginPasskey',
    tag: 'People',
    summary: 'Begin to register a passkey',
    description:
      'Asks for your password once more. Answers with what `navigator.credentials.create` takes (WebAuthn), and sets a cookie that binds its ' +
      'challenge to this session for ten minutes.',
    errors: ['user_state_conflict'],
    headers: ['Set-Cookie'],
  },
  'POST /v1/users/me/passkeys': {
    id: 'addPasskey',
    tag: 'People',
    summary: 'Register a passkey',
    errors: ['user_state_conflict'],
    headers: ['Set-Cookie'],
  },
  'PATCH /v1/users/me/passkeys/:id': {
    id: 'renamePasskey',
    tag: 'People',
    summary: 'Rename a passkey of yours',
    errors: ['passkey_not_found'],
  },
  'DELETE /v1/users/me/passkeys/:id': {
    id: 'removePasskey',
    tag: 'People',
    summary: 'Remove a passkey of yours',
    description: 'The last way to log in stays.',
    errors: ['passkey_not_found', 'user_state_conflict'],
  },
  'POST /v1/invitations/accept': {
    id: 'acceptInvitation',
    tag: 'People',
    summary: 'Accept an invitation: choose a password and log in',
    description:
      '`token` is what follows `#token=` in the link, which works once. The link of a first owner needs `email` too. Send it like a login.',
    errors: [...ofLogins, 'invitation_not_found'],
    headers: ['Set-Cookie'],
  },

  'POST /v1/channels': {
    id: 'createChannel',
    tag: 'Channels',
    summary: 'Add a channel that tells people of approvals',
    description:
      'It is told of approvals that are opened from now on: at once, or after `after_s` if they still wait then, and where that was sent, of their end. ' +
      'A gate with enabled channels of its own uses these in place of those of the account. The target is stored sealed and never shown again in full. ' +
      'See docs/channels.md.',
    errors: ['gate_not_found'],
  },
  'GET /v1/channels': { id: 'listChannels', tag: 'Channels', summary: 'List channels, newest first' },
  'GET /v1/channels/:id': {
    id: 'getChannel',
    tag: 'Channels',
    summary: 'Get a channel and how its last messages went',
    errors: ['channel_not_found'],
    headers: ['ETag'],
  },
  'PATCH /v1/channels/:id': {
    id: 'updateChannel',
    tag: 'Channels',
    summary: 'Change a channel',
    description:
      'Only what is present changes. Another target, or enabling, begins anew: what failed before counts no more.',
    errors: ['channel_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
    headers: ['ETag'],
  },
  'DELETE /v1/channels/:id': {
    id: 'deleteChannel',
    tag: 'Channels',
    summary: 'Delete a channel',
    errors: ['channel_not_found', 'precondition_failed'],
    requestHeaders: ['If-Match'],
  },
  'POST /v1/channels/:id/test': {
    id: 'testChannel',
    tag: 'Channels',
    summary: 'Send a test message to a channel, now',
    description: 'Once, and the answer says what came of it. A disabled channel can be tested, too.',
    errors: ['channel_not_found'],
  },
  'POST /v1/webhooks': {
    id: 'createWebhook',
    tag: 'Webhooks',
    summary: 'Subscribe an endpoint to events',
    description:
      'Each event is sent as a POST, signed as Standard Webhooks has it with `secret`, which is shown this once. With `url` null nothing is sent: ' +
      'fetch the deliveries, as `agent-trust webhooks listen` does. See docs/webhooks.md.',
    errors: ['precondition_failed'],
    requestHeaders: ['If-None-Match: *'],
  },
  'GET /v1/webhooks': { id: 'listWebhooks', tag: 'Webhooks', summary: 'List webhooks, newest first' },
  'GET /v1/webhooks/:id': {
    id: 'getWebhook',
    tag: 'Webhooks',
    summary: 'Get a webhook',
    errors: ['webhook_not_found'],
  },
  'PUT /v1/webhooks/:id': {
    id: 'updateWebhook',
    tag: 'Webhooks',
    summary: 'Change a webhook',
    description:
      'Only what is present changes. Pending deliveries of a disabled webhook are sent when it is enabled again.',
    errors: ['webhook_not_found'],
  },
  'DELETE /v1/webhooks/:id': {
    id: 'deleteWebhook',
    tag: 'Webhooks',
    summary: 'Delete a webhook',
    description: 'Its undelivered events are discarded.',
    errors: ['webhook_not_found'],
  },
  'POST /v1/webhooks/:id/roll-secret': {
    id: 'rollWebhookSecret',
    tag: 'Webhooks',
    summary: 'Replace the secret of a webhook by a new one',
    description:
      'For `overlap_s` each delivery carries a signature by both; if the answer is lost, roll it again within that time: each earlier secret stays valid until its own end. With 0 only the new one signs, at once. The new `secret` is shown this once.',
    errors: ['webhook_not_found'],
  },
  'POST /v1/webhooks/:id/test': {
    id: 'testWebhook',
    tag: 'Webhooks',
    summary: 'Send an event with sample data to a webhook',
    description: 'Answers with the delivery before it is attempted; get it again to see the outcome.',
    errors: ['webhook_not_found'],
  },
  'GET /v1/webhooks/:id/deliveries': {
    id: 'listDeliveries',
    tag: 'Webhooks',
    summary: 'List what was sent to a webhook, newest first',
    description: 'With the newest 20 attempts of each. Deliveries are kept for 30 days.',
    errors: ['webhook_not_found'],
  },
  'POST /v1/webhooks/:id/deliveries/:delivery_id/resend': {
    id: 'resendDelivery',
    tag: 'Webhooks',
    summary: 'Send a delivery again',
    description:
      'Whatever its status, at once, with the same `webhook-id`, and with a retry schedule of its own.',
    errors: ['webhook_not_found', 'delivery_not_found'],
  },
  'POST /v1/webhooks/:id/recover': {
    id: 'recoverWebhook',
    tag: 'Webhooks',
    summary: 'Send again what has failed since a time',
    description:
      'All deliveries created since then that have failed, finally or so far; at most 10,000 at a time, the oldest first.',
    errors: ['webhook_not_found'],
  },

  'POST /v1/accounts': {
    id: 'createAccount',
    tag: 'Accounts',
    summary: 'Create an account with its first API key',
    description: '`api_key.key` is shown this once.',
  },
  'GET /v1/accounts': { id: 'listAccounts', tag: 'Accounts', summary: 'List accounts, newest first' },
  'GET /v1/accounts/:id': {
    id: 'getAccount',
    tag: 'Accounts',
    summary: 'Get an account',
    errors: ['account_not_found'],
  },
  'PUT /v1/accounts/:id': {
    id: 'updateAccount',
    tag: 'Accounts',
    summary: 'Change an account',
    description:
      'Only what is present changes; `limits` are replaced as a whole. Keys of a suspended account answer `account_suspended`, its passports ' +
      'are blocked `passport_suspended`.',
    errors: ['account_not_found'],
  },

  'GET /.well-known/jwks.json': {
    id: 'getJwks',
    tag: 'Signing keys',
    summary: 'Get the public keys of this service (RFC 7517)',
    description: 'Current, future and retired keys: every signature can be verified for ever.',
    headers: ['Cache-Control'],
  },

  'GET /.well-known/sidecar-keys.json': {
    id: 'getRevokedSidecarKeys',
    tag: 'Signing keys',
    summary: 'Get the keys of sidecars that were revoked',
    description: 'Receipts that they signed prove nothing. See docs/receipts.md.',
    headers: ['Cache-Control'],
  },

  'POST /v1/signing-keys/revoke-sidecar-key': {
    id: 'revokeSidecarKey',
    tag: 'Signing keys',
    summary: 'Revoke the key with which a sidecar signs receipts',
    description:
      'For the operator of the service, where the key may have leaked. What it signed proves nothing from now on, and its sidecar makes another ' +
      'one. For good: a repeat answers the same. See docs/receipts.md.',
  },

  'POST /v1/receipts': {
    id: 'showReceipt',
    tag: 'Audit',
    summary: 'Show a receipt',
    description:
      'Answers whether the record is here as the receipt says. Where the database went back behind what the sidecar had been told, the service ' +
      'notices it. See docs/receipts.md.',
  },

  'POST /v1/signing-keys/rotate': {
    id: 'rotateSigningKey',
    tag: 'Signing keys',
    summary: 'Replace a key with which this service signs',
    description:
      'For the operator of the service. The next key is published at once and signs 60 s later; the old one verifies for ever. With ' +
      '`compromised` signatures of the current key prove nothing any more, and the next key signs at once. With `kid` beside it those of that key, ' +
      'also of a retired one: then no key is replaced. 201: a new key; 200: a retired key was declared compromised, or what an earlier call did within ' +
      'the last 60 s, so that it may be repeated safely. See docs/keys.md.',
  },

  'GET /livez': { id: 'getLiveness', tag: 'Operations', summary: 'Ask whether this process answers' },
  'GET /readyz': {
    id: 'getReadiness',
    tag: 'Operations',
    summary: 'Ask whether this process can serve',
    description:
      'Answers 503 where it cannot: the database cannot be reached, or is not migrated, or a chain of records was inconsistent.',
  },
  'GET /metrics': {
    id: 'getMetrics',
    tag: 'Operations',
    summary: 'Get the metrics as Prometheus text',
    contents: { 'text/plain': Type.String() },
  },
};
