import { type Static, Type } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { Approval, ApprovalStatus } from '../../shared/model/approval.ts';
import { isId } from '../../shared/model/ids.ts';
import { renderTime } from '../../shared/model/time.ts';
import { readEvaluation } from '../../shared/wire/api/authzen.ts';
import { bodyReader } from '../../shared/wire/api/body.ts';
import { Timestamp } from '../../shared/wire/api/fields.ts';
import { translateEntities } from '../../shared/wire/api/translate-entities.ts';
import { findApproval } from '../approvals/approval-store.ts';
import { approvalIdOf } from '../approvals/approval-use-cases.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { Caller } from '../http/caller.ts';
import { readVocabulary } from './vocabulary-store.ts';

/** A task of the Access Request and Approval Profile: the state of an approval, without what is asked. */
export const Task = Type.Object({
  task: Type.Object({
    id: Type.String(),
    status: Type.Enum(['pending', 'approved', 'denied', 'expired', 'used']),
    status_endpoint: Type.String(),
    expires_at: Timestamp,
  }),
  result: Type.Optional(
    Type.Object({
      mode: Type.Literal('reevaluate'),
      approval: Type.Object({
        id: Type.String(),
        approved_at: Type.Optional(Timestamp),
        approved_until: Timestamp,
      }),
    }),
  ),
});
type Task = Static<typeof Task>;

/** Besides the denied evaluation. Other members may be there and mean nothing. */
const Submission = Type.Object({
  denial: Type.Object({ evaluation_id: Type.String() }),
  items: Type.Optional(Type.Never()),
});
const readSubmission = bodyReader(Submission);

type AccessRequestDeps = Pick<BaseDeps, 'sql' | 'clock'>;

/**
 * The task of a SUSPEND, which exists already: nothing is opened or changed by it. Throws for a submission
 * that is about another subject, gate or permission.
 */
export async function submitAccessRequest(
  deps: AccessRequestDeps,
  caller: Caller,
  { body, requestsUrl }: { readonly body: unknown; readonly requestsUrl: string },
): Promise<Task> {
  const { evaluation_id: id } = readSubmission(body).denial;
  const vocabulary = await readVocabulary(deps.sql, caller);
  const asked = readEvaluation(body, (entities) => translateEntities(vocabulary, entities));
  const approval = isId('appr', id)
    ? await findApproval(deps.sql, caller, { approvalId: id, nowMs: deps.clock.now() })
    : null;
  const isOfSubject =
    approval !== null && [approval.agentId, approval.passportId].some((name) => name === asked.subjectId);
  const isOfRequest =
    approval?.gateId === asked.gateId && approval.permissionKey === asked.request['permission_key'];
  if (approval === null || !isOfSubject || !isOfRequest) {
    throw invalidRequest(
      'denial.evaluation_id',
      'denial.evaluation_id must be that of the SUSPEND of the same subject, action and resource.',
    );
  }
  return renderTask(approval, requestsUrl);
}

/** Throws `approval_not_found`, also for an approval at a gate of others. */
export async function readAccessRequest(
  deps: AccessRequestDeps,
  caller: Caller,
  { id, requestsUrl }: { readonly id: string; readonly requestsUrl: string },
): Promise<Task> {
  const approvalId = approvalIdOf(id);
  const approval = await findApproval(deps.sql, caller, { approvalId, nowMs: deps.clock.now() });
  if (approval === null) throw new ApiError('approval_not_found');
  return renderTask(approval, requestsUrl);
}

function renderTask(
  { approvalId: id, status, expiresAtMs, resolvedAtMs }: Approval,
  requestsUrl: string,
): Task {
  const expires_at = renderTime(expiresAtMs);
  const task = {
    id,
    status: status satisfies ApprovalStatus,
    status_endpoint: `${requestsUrl}/${id}`,
    expires_at,
  };
  if (status !== 'approved') return { task };
  const approved_at = resolvedAtMs === null ? {} : { approved_at: renderTime(resolvedAtMs) };
  return {
    task,
    result: { mode: 'reevaluate', approval: { id, ...approved_at, approved_until: expires_at } },
  };
}
