import type { Answer, Operation } from '../../../control-plane/openapi/document.ts';
import { must } from '../../../shared/errors/assert.ts';

const text = { type: 'string' } as const;
/** The control plane's document has all of its headers by name; these are of this operation alone. */
const header = (name: string, description: string): Answer['headers'] =>
  ({ [name]: { description, schema: text } }) as unknown as Answer['headers'];

const decided = {
  ...header('X-Gate-Decision', '`PERMIT`, `SUSPEND` or `BLOCK`; `NONE`: nothing was decided.'),
  ...header('X-Gate-Reason', 'Reason of the decision, or code of the error; empty for a PERMIT.'),
  ...header('X-Attestation-Id', 'Id of the record; empty where there is none.'),
  ...header('X-Passport-Id', 'Id of the passport, if it verified; else empty.'),
};

/**
 * The per-gate address (contract §15), as a proxy asks it with GET; it takes every method. `check`: the
 * operation that decides the same.
 */
export function forwardAuthOperations(
  check: Operation,
): Readonly<Record<string, Readonly<Record<string, Operation>>>> {
  const schema = {
    anyOf: [{ $ref: '#/components/schemas/Decision' }, { $ref: '#/components/schemas/Error' }],
  };
  const answer = (description: string, more: Answer['headers'] = {}): Answer => ({
    description,
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
      ...decided,
      ...more,
    },
    content: { 'application/json': { schema } },
  });
  const retry = header('Retry-After', 'Seconds until it is worth asking again; absent: it is not.');
  const authorize: Operation = {
    operationId: 'authorizeForwarded',
    summary: 'Decide for a proxy: the per-gate address',
    description:
      'For `auth_request` of nginx, `ext_authz` of Envoy, Traefik and Caddy. Takes every method, and any path below the id of the gate. The passport comes ' +
      'from `Authorization: Passport <token>` or `X-Agent-Passport`; permission, amount, method and path come from headers that `FORWARD_AUTH_HEADERS` ' +
      'names, else from the request itself and the routes of the gate. A body means nothing.\n\n' +
      'Needs a key with the scope `enforcement:check` in `X-Agent-Trust-Key`, or a loopback peer where `FORWARD_AUTH_TRUST` is `loopback`.',
    tags: ['Enforcement'],
    security: [],
    parameters: [
      {
        name: 'id',
        in: 'path',
        required: true,
        description: 'Id of the gate.',
        schema: { ...text, pattern: '^gate_[0-9a-z]{26}$' },
      },
    ] as unknown as NonNullable<Operation['parameters']>,
    responses: {
      200: answer('PERMIT. Let the request pass.'),
      400: answer('A trusted header cannot be read, comes twice, or contradicts another one.'),
      401: answer(
        'BLOCK for a reason `passport_…`, or no passport, or no key.',
        header('WWW-Authenticate', '`Passport`.'),
      ),
      403: answer('Any other BLOCK, SUSPEND, or a key without the scope.', retry),
      404: answer('No such gate.'),
      500: must(check.responses[500], 'check answers 500'),
      503: answer('No decision: not ready or overloaded.', retry),
    },
  };
  return { '/{id}': { get: authorize } };
}
