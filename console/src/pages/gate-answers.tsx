import type { ReactNode } from 'react';
import type { GateConstraints } from '../api/client.ts';
import { Select, TextArea, TextField } from '../ui/field.tsx';

/** What the form holds about answers to approvals, as text. */
export interface AnswersDraft {
  /** `any` or `people`. */
  readonly answers: string;
  readonly answerCount: string;
  readonly answerRoles: string;
  readonly answerUsers: string;
  readonly mayRequesterAnswer: string;
  readonly mayOwnerAnswer: string;
  readonly independent: string;
  readonly passkey: string;
}

export const textOf = (value: number | null | undefined): string =>
  value === null || value === undefined ? '' : String(value);
export const numberOf = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text));
export const listOf = (text: string): string[] => text.split(/[\s,]+/).filter((each) => each !== '');

const yesOrNo = (isYes: boolean): string => (isYes ? 'yes' : 'no');

export function answersOf(approvals: GateConstraints['approvals']): AnswersDraft {
  const approvers = approvals?.approvers;
  return {
    answers: approvers === undefined ? 'any' : 'people',
    answerCount: textOf(approvers?.count),
    answerRoles: (approvers?.roles ?? []).join('\n'),
    answerUsers: (approvers?.users ?? []).join('\n'),
    mayRequesterAnswer: yesOrNo(approvers?.not_requester === false),
    mayOwnerAnswer: yesOrNo(approvers?.not_owner !== true),
    independent: yesOrNo(approvers?.independent === true),
    passkey: yesOrNo(approvals?.passkey === true),
  };
}

type Approvers = NonNullable<NonNullable<GateConstraints['approvals']>['approvers']>;

export function approversOf(draft: AnswersDraft): Approvers | undefined {
  if (draft.answers !== 'people') return undefined;
  const roles = listOf(draft.answerRoles);
  const users = listOf(draft.answerUsers);
  const count = numberOf(draft.answerCount);
  return {
    ...(roles.length === 0 ? {} : { roles: roles as NonNullable<Approvers['roles']> }),
    ...(users.length === 0 ? {} : { users }),
    ...(count === undefined ? {} : { count }),
    ...(draft.mayRequesterAnswer === 'yes' ? { not_requester: false } : {}),
    ...(draft.mayOwnerAnswer === 'no' ? { not_owner: true } : {}),
    ...(draft.independent === 'yes' ? { independent: true } : {}),
  };
}

type FieldOf = (name: keyof AnswersDraft) => { readonly value: string; onChange(value: string): void };

/** Who answers, and with what proof. */
export function Answering({
  isByPeople,
  field,
}: {
  readonly isByPeople: boolean;
  readonly field: FieldOf;
}): ReactNode {
  return (
    <>
      <div className="form-grid">
        <Select
          label="Who answers"
          options={[
            ['any', 'One person or API key'],
            ['people', 'People, as named here'],
          ]}
          {...field('answers')}
        />
        <Select
          label="Signed with a passkey"
          param="constraints.approvals.passkey"
          options={[
            ['no', 'No'],
            ['yes', 'Each answer'],
          ]}
          {...field('passkey')}
        />
        {isByPeople ? (
          <>
            <TextField
              label="How many different people"
              param="constraints.approvals.approvers.count"
              type="number"
              min={1}
              max={5}
              placeholder="1"
              {...field('answerCount')}
            />
            <Select
              label="The person behind the request"
              param="constraints.approvals.approvers.not_requester"
              options={[
                ['no', 'Does not answer'],
                ['yes', 'May answer'],
              ]}
              {...field('mayRequesterAnswer')}
            />
            <Select
              label="The owner of the passport"
              param="constraints.approvals.approvers.not_owner"
              options={[
                ['yes', 'May answer'],
                ['no', 'Does not answer'],
              ]}
              {...field('mayOwnerAnswer')}
            />
            <Select
              label="People who saw each other's invitations"
              param="constraints.approvals.approvers.independent"
              options={[
                ['no', 'Count each'],
                ['yes', 'Count as one'],
              ]}
              {...field('independent')}
            />
          </>
        ) : null}
      </div>
      {isByPeople ? (
        <>
          <TextArea
            label="People with these roles"
            param="constraints.approvals.approvers.roles"
            hint="One a line: owner, admin or approver. With no role and no person: all three."
            rows={2}
            {...field('answerRoles')}
          />
          <TextArea
            label="These people"
            param="constraints.approvals.approvers.users"
            hint="One a line: the ids of the page People (usr_...)."
            rows={2}
            {...field('answerUsers')}
          />
        </>
      ) : null}
    </>
  );
}
