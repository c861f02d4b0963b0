import { Type } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import { ApprovalAnswer, ApprovalListQuery, ApprovalResolution } from '../../shared/wire/api/approval.ts';
import { closed } from '../../shared/wire/api/fields.ts';
import { PageAnswer } from '../../shared/wire/api/paging.ts';
import { listApprovalsUseCase, resolveApprovalUseCase } from '../approvals/approval-use-cases.ts';
import { defineTool } from './tool.ts';

const { status, limit, offset, cursor } = ApprovalListQuery.properties;

export const listApprovals = defineTool({
  name: 'list_approvals',
  title: 'List approvals',
  description:
    'Lists the requests at the gates of the account that need, or needed, approval by a person, the newest first, page by page.',
  scope: listApprovalsUseCase.scope,
  hints: { readOnlyHint: true },
  holdsForeignText: true,
  input: closed({ status, limit: Type.Optional(limit), offset: Type.Optional(offset), cursor }),
  output: PageAnswer(ApprovalAnswer),
  run: (deps, caller, args) =>
    listApprovalsUseCase.run(deps, caller, { limit: limits.pageItemsDefault, offset: 0, ...args }),
});

export const resolveApproval = defineTool({
  name: 'resolve_approval',
  title: 'Approve or deny a request',
  description:
    'Approves or denies a request that waits for a person, for good. Ask that person first, and show who requests what for how much: this call records ' +
    "that person's decision. Where the gate names approvers or asks for passkeys, people answer in the console.",
  scope: resolveApprovalUseCase.scope,
  hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  holdsForeignText: true,
  input: closed({
    approval_id: Type.String(),
    resolution: Type.Enum(['approved', 'denied'], { description: 'What the person said.' }),
    note: ApprovalResolution.properties.note,
  }),
  output: ApprovalAnswer,
  run: (deps, caller, { approval_id: id, resolution, note = null }) =>
    resolveApprovalUseCase.run(deps, caller, {
      id,
      resolution: { status: resolution, note, assertion: null },
    }),
});
