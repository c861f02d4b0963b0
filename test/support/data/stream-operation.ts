import type { Operation } from '../../../control-plane/openapi/document.ts';
import { must } from '../../../shared/errors/assert.ts';

/**
 * The handshake of a stream (contract §16). OpenAPI has no words for what follows it: the frames are
 * described in prose. `check`: the operation that decides the same, whose refusals are these.
 */
export function streamOperation(check: Operation): Operation {
  const refusals = [400, 401, 403, 500, 503] as const;
  return {
    operationId: 'openStream',
    summary: 'Open a WebSocket for checks',
    description:
      'Send the handshake of a WebSocket (RFC 6455), version 13. Each text message is a frame ' +
      '`{"id", "gate_id", "passport", "request"}` of at most 64 KiB: `id` is yours, 1 to 64 characters, and `gate_id` is null for a check without a gate. ' +
      'A frame may have the members that the answer to the handshake names in `Agent-Trust-Frame-Members`, too: `traceparent` and `tracestate`. ' +
      'Each is answered `{"id", ...}` with what `check` answers, a decision or `error`, in any order; a frame whose id cannot be read, or is still ' +
      'unanswered, is answered with the id null. At most 1,024 frames may be without an answer, beyond it they are `overloaded`. ' +
      'The sidecar closes with 4401 when the key ends, 4408 where answers are not read, and 1001 when it stops.' +
      '\n\nNeeds a key with the scope `enforcement:check`.',
    tags: ['Enforcement'],
    security: check.security,
    responses: {
      101: {
        description: 'The connection is a WebSocket from here on.',
        headers: {},
      },
      ...Object.fromEntries(
        refusals.map((status) => [status, must(check.responses[status], `check answers ${status}`)]),
      ),
    },
  };
}
