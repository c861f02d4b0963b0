/**
 * One public error: the HTTP status, the sentence sent when nothing more precise is known, and whether the
 * same call may succeed later.
 */
interface CatalogueRow {
  readonly status: number;
  readonly message: string;
  readonly retryable: boolean;
}

/** The closed list of contract §12. Clients branch on these codes: a row is added, never renamed. */
export const catalogue = {
  invalid_request: { status: 400, message: 'The request is not valid.', retryable: false },
  invalid_json: { status: 400, message: 'The body is not valid JSON.', retryable: false },
  body_too_large: { status: 400, message: 'The body is larger than this endpoint takes.', retryable: false },
  unauthorized: {
    status: 401,
    message: 'The API key is missing or not valid. Send it as "Authorization: Bearer <API_KEY>".',
    retryable: false,
  },
  insufficient_scope: {
    status: 403,
    message: 'The API key lacks the scope this call needs.',
    retryable: false,
  },
  account_suspended: { status: 403, message: 'The account of this API key is suspended.', retryable: false },
  passport_not_found: { status: 404, message: 'No such passport.', retryable: false },
  gate_not_found: { status: 404, message: 'No such gate.', retryable: false },
  catalog_not_found: { status: 404, message: 'This gate has no published catalog.', retryable: false },
  issuer_not_found: { status: 404, message: 'No such issuer.', retryable: false },
  template_not_found: { status: 404, message: 'No such template.', retryable: false },
  attestation_not_found: { status: 404, message: 'No such attestation.', retryable: false },
  approval_not_found: { status: 404, message: 'No such approval.', retryable: false },
  webhook_not_found: { status: 404, message: 'No such webhook.', retryable: false },
  delivery_not_found: { status: 404, message: 'No such delivery.', retryable: false },
  api_key_not_found: { status: 404, message: 'No such API key.', retryable: false },
  account_not_found: { status: 404, message: 'No such account.', retryable: false },
  route_not_found: { status: 404, message: 'No such address.', retryable: false },
  agent_id_conflict: {
    status: 409,
    message: 'This agent_id already has a passport that is active or suspended.',
    retryable: false,
  },
  passport_state_conflict: {
    status: 409,
    message: 'The passport is in a state that does not allow this.',
    retryable: false,
  },
  approval_already_resolved: { status: 409, message: 'The approval is already resolved.', retryable: false },
  idempotency_conflict: {
    status: 409,
    message: 'This idempotency key was used for a different request.',
    retryable: false,
  },
  precondition_failed: {
    status: 412,
    message: 'The resource has changed since you read it.',
    retryable: false,
  },
  rate_limited: { status: 429, message: 'The plan limit of this account is used up.', retryable: true },
  internal_error: { status: 500, message: 'Something went wrong on our side.', retryable: true },
  overloaded: { status: 503, message: 'Too much work is waiting. Try again shortly.', retryable: true },
  service_unavailable: {
    status: 503,
    message: 'The database cannot be reached. Try again shortly.',
    retryable: true,
  },
} as const satisfies Readonly<Record<string, CatalogueRow>>;

export type ErrorCode = keyof typeof catalogue;
