/**
 * Room `shared/errors`: every public error with its code, status and message; `api-error.ts` throws one,
 * `assert.ts` is for our own faults.
 */

/** One public error: its HTTP status and default message. */
interface CatalogueRow {
  readonly status: number;
  readonly message: string;
}

/** The closed list of contract §12. Clients branch on these codes: a row is added, never renamed. */
export const catalogue = {
  invalid_request: { status: 400, message: 'The request is not valid.' },
  invalid_json: { status: 400, message: 'The body is not valid JSON.' },
  body_too_large: { status: 400, message: 'The body is larger than this endpoint accepts.' },
  unauthorized: {
    status: 401,
    message: 'The API key is missing or not valid. Send it as "Authorization: Bearer <API_KEY>".',
  },
  login_failed: { status: 401, message: 'Email, password or code is wrong.' },
  totp_required: { status: 401, message: 'This login also needs a code: send it as totp_code.' },
  insufficient_scope: {
    status: 403,
    message: 'The API key lacks the scope that this endpoint requires.',
  },
  account_suspended: { status: 403, message: 'The account of this API key is suspended.' },
  cross_site_request: {
    status: 403,
    message: 'A change with a browser session must come from the console, with X-Agent-Trust-Console: 1.',
  },
  not_an_approver: { status: 403, message: 'The gate of this approval wants an answer from somebody else.' },
  passkey_required: {
    status: 403,
    message: 'The gate of this approval wants each answer signed with a passkey. Answer in the console.',
  },
  passkey_refused: {
    status: 403,
    message:
      'The passkey proves no such answer: it must be yours, used on this page for this approval, amount and answer, once. Read the approval again, then answer again.',
  },
  passport_not_found: { status: 404, message: 'No such passport.' },
  gate_not_found: { status: 404, message: 'No such gate.' },
  shadow_not_found: { status: 404, message: 'This gate has no shadow in force.' },
  catalog_not_found: { status: 404, message: 'This gate has no published catalog.' },
  backtest_not_found: { status: 404, message: 'No such backtest: they are kept for 7 days.' },
  policy_not_found: { status: 404, message: 'None of your gates has had a policy of this hash.' },
  issuer_not_found: { status: 404, message: 'No such issuer.' },
  template_not_found: { status: 404, message: 'No such template.' },
  attestation_not_found: { status: 404, message: 'No such attestation.' },
  approval_not_found: { status: 404, message: 'No such approval.' },
  hold_not_found: { status: 404, message: 'This PERMIT has no hold.' },
  mcp_pin_not_found: { status: 404, message: 'No such MCP pin.' },
  wallet_not_found: { status: 404, message: 'No such wallet.' },
  webhook_not_found: { status: 404, message: 'No such webhook.' },
  channel_not_found: { status: 404, message: 'No such channel.' },
  delivery_not_found: { status: 404, message: 'No such delivery.' },
  api_key_not_found: { status: 404, message: 'No such API key.' },
  account_not_found: { status: 404, message: 'No such account.' },
  user_not_found: { status: 404, message: 'No such user.' },
  session_not_found: { status: 404, message: 'No such session.' },
  passkey_not_found: { status: 404, message: 'No such passkey.' },
  invitation_not_found: {
    status: 404,
    message: 'This invitation does not exist, was used, was replaced or has expired.',
  },
  route_not_found: { status: 404, message: 'No such endpoint.' },
  agent_id_conflict: {
    status: 409,
    message: 'This agent_id already has a passport that is active or suspended.',
  },
  passport_state_conflict: {
    status: 409,
    message: 'The status of the passport does not allow this.',
  },
  approval_already_resolved: { status: 409, message: 'The approval is already resolved.' },
  approval_already_answered: { status: 409, message: 'You have answered this approval already.' },
  mcp_pin_state_conflict: {
    status: 409,
    message: 'No change of this tool waits for an answer.',
  },
  mcp_pins_full: { status: 409, message: 'There is no room for more pins.' },
  outcome_conflict: { status: 409, message: 'The state of this PERMIT does not allow it.' },
  amount_exceeds_hold: { status: 409, message: 'The amount is more than is held, or more than counts.' },
  spend_limit_exceeded: {
    status: 409,
    message: 'A limit, or what was approved, has no room for the amount beyond the hold.',
  },
  backtest_running: {
    status: 409,
    message: 'Another backtest of the account is running. Wait for its end, or cancel it with DELETE.',
  },
  channel_name_conflict: { status: 409, message: 'Another channel of this mode has this name.' },
  email_conflict: { status: 409, message: 'This email address already belongs to a user of the account.' },
  last_owner: { status: 409, message: 'This is the last active owner of the account.' },
  user_state_conflict: { status: 409, message: 'The state of the user does not allow this.' },
  idempotency_conflict: {
    status: 409,
    message: 'This idempotency key was used for a different request.',
  },
  proof_not_ready: {
    status: 409,
    message: 'No checkpoint of the log covers this record yet. Try again within 15 seconds.',
  },
  precondition_failed: {
    status: 412,
    message: 'The resource has changed since you read it.',
  },
  unsupported_media_type: {
    status: 415,
    message: 'The body must be sent as it is, without a Content-Encoding.',
  },
  rate_limited: { status: 429, message: 'The plan limit of this account is used up.' },
  internal_error: { status: 500, message: 'Internal error.' },
  overloaded: { status: 503, message: 'The service is overloaded. Try again shortly.' },
  service_unavailable: {
    status: 503,
    message: 'The database cannot be reached. Try again shortly.',
  },
} as const satisfies Readonly<Record<string, CatalogueRow>>;

export type ErrorCode = keyof typeof catalogue;
