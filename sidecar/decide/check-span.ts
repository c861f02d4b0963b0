import { isId } from '../../shared/model/ids.ts';
import type { SpanEnd } from '../../shared/telemetry/tracer.ts';
import type { OpenCheck } from './check.ts';
import type { CheckReply } from './replies.ts';

const ended = (errorType: string): SpanEnd => ({
  attributes: { 'error.type': errorType },
  isError: true,
});

/** Its deadline has answered it. */
export const endedLate = ended('overloaded');
/** Its client has gone. */
export const abandoned = ended('client_gone');

/**
 * What is exported of a check: which gate, what was decided and why, and the ids under which the record or
 * the approval is found. Nothing that its caller or its agent wrote.
 */
export function spanEndOf({ gateId, caller }: OpenCheck, reply: CheckReply): SpanEnd {
  const about = {
    ...(gateId !== null && isId('gate', gateId) && { 'agent_trust.gate_id': gateId }),
    'agent_trust.mode': caller.mode,
  };
  if ('error' in reply) {
    const { code, status } = reply.error;
    return { attributes: { ...about, 'error.type': code }, isError: status >= 500 };
  }
  const { decision, reason, attestation_id } = reply.answer;
  return {
    attributes: {
      ...about,
      'agent_trust.decision': decision,
      ...(reason !== null && { 'agent_trust.reason': reason }),
      ...(attestation_id !== null && { 'agent_trust.attestation_id': attestation_id }),
      ...('approval_id' in reply.answer && { 'agent_trust.approval_id': reply.answer.approval_id }),
    },
    isError: false,
  };
}
