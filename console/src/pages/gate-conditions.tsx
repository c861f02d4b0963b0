import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useId, useState } from 'react';
import { conditionExamples } from '../../../shared/model/condition-examples.ts';
import { AgentTrustError, api, type Condition } from '../api/client.ts';
import { Select, TextArea, TextField } from '../ui/field.tsx';
import { Card, Problem } from '../ui/page.tsx';
import { listOf } from './gate-answers.tsx';

/** A condition as it is typed. */
export interface ConditionDraft {
  /** Of the list on the page: two may have the same id while they are typed. */
  readonly key: number;
  readonly id: string;
  readonly require: string;
  readonly permissions: string;
  readonly otherwise: string;
  readonly message: string;
}

let lastKey = 0;

const draftOf = (condition: Condition): ConditionDraft => ({
  key: ++lastKey,
  id: condition.id,
  require: condition.require,
  permissions: (condition.permissions ?? []).join('\n'),
  otherwise: condition.otherwise ?? 'block',
  message: condition.message ?? '',
});

export const conditionDraftsOf = (conditions: readonly Condition[] | null | undefined) =>
  (conditions ?? []).map(draftOf);

export const conditionsOf = (drafts: readonly ConditionDraft[]): readonly Condition[] =>
  drafts.map(({ id, require, permissions, otherwise, message }) => ({
    id: id.trim(),
    require,
    ...(listOf(permissions).length === 0 ? {} : { permissions: listOf(permissions) }),
    ...(otherwise === 'approve' ? { otherwise } : {}),
    ...(message.trim() === '' ? {} : { message: message.trim() }),
  }));

/** The conditions of a gate, each checked while it is typed. */
export function Conditions({
  gateId,
  drafts,
  onChange,
}: {
  readonly gateId: string;
  readonly drafts: readonly ConditionDraft[];
  onChange(drafts: readonly ConditionDraft[]): void;
}): ReactNode {
  const add = (condition: Condition) => {
    const taken = new Set(drafts.map(({ id }) => id));
    const free = [condition.id, ...Array.from({ length: 32 }, (_, n) => `${condition.id}-${n + 2}`)];
    onChange([...drafts, draftOf({ ...condition, id: free.find((id) => !taken.has(id)) ?? '' })]);
  };
  return (
    <Card
      title="Conditions"
      actions={
        <Select
          label="Add a condition"
          isLabelHidden
          value=""
          onChange={(name) => {
            const example = conditionExamples.find(({ id }) => id === name);
            if (name === newCondition) add({ id: 'condition', require: '' });
            else if (example !== undefined) add(example);
          }}
          options={[
            ['', 'Add a condition…'],
            [newCondition, 'A new one'],
            ...conditionExamples.map(({ id, title }) => [id, `Example: ${title}`] as const),
          ]}
        />
      }
    >
      {drafts.length === 0 ? (
        <p className="soft">
          None. A condition says what a request must be, such as a path below a folder or a time of day.
        </p>
      ) : null}
      {drafts.map((draft, index) => (
        <ConditionForm
          key={draft.key}
          gateId={gateId}
          draft={draft}
          index={index}
          onChange={(next) => onChange(drafts.map((each) => (each.key === draft.key ? next : each)))}
          onRemove={() => onChange(drafts.filter(({ key }) => key !== draft.key))}
        />
      ))}
    </Card>
  );
}

const newCondition = '+';

function ConditionForm({
  gateId,
  draft,
  index,
  onChange,
  onRemove,
}: {
  readonly gateId: string;
  readonly draft: ConditionDraft;
  readonly index: number;
  onChange(draft: ConditionDraft): void;
  onRemove(): void;
}): ReactNode {
  const param = (name: string) => `constraints.conditions.${index}.${name}`;
  const field = (name: 'id' | 'require' | 'permissions' | 'otherwise' | 'message') => ({
    param: param(name),
    value: draft[name],
    onChange: (value: string) => onChange({ ...draft, [name]: value }),
  });
  const titleId = useId();
  const check = useCheck(gateId, draft);
  return (
    <fieldset className="condition" aria-labelledby={titleId}>
      <div className="row between">
        <h3 id={titleId}>{draft.id === '' ? 'A condition' : draft.id}</h3>
        <button
          type="button"
          className="button small"
          aria-label={`Remove the condition ${draft.id}`}
          onClick={onRemove}
        >
          Remove
        </button>
      </div>
      <TextArea label="It must be true that" isCode rows={3} fault={check.fault} {...field('require')} />
      {check.said}
      <div className="form-grid">
        <TextField label="Id" required pattern="[a-z0-9\-]{1,64}" {...field('id')} />
        <Select
          label="Otherwise"
          options={[
            ['block', 'Block the request'],
            ['approve', 'Ask a person'],
          ]}
          {...field('otherwise')}
        />
      </div>
      <TextArea
        label="Asked of these permissions"
        hint="One a line, such as tools:write_file or orders:*. None: every request."
        rows={2}
        {...field('permissions')}
      />
      <TextField
        label="What the agent is told"
        maxLength={200}
        placeholder="nothing more"
        {...field('message')}
      />
    </fieldset>
  );
}

/** So long nothing is typed before the service is asked. */
const pauseMs = 400;

/** What the service says of an expression: its fault with the place below its line, what it reads, or warnings. */
function useCheck(gateId: string, { require, permissions }: ConditionDraft) {
  const [asked, setAsked] = useState({ require, permissions });
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ require, permissions }), pauseMs);
    return () => clearTimeout(timer);
  }, [require, permissions]);
  const of = listOf(asked.permissions);
  const query = useQuery({
    queryKey: ['conditions', 'check', gateId, asked.require, of],
    queryFn: ({ signal }) =>
      api.gates.checkCondition(
        { gate_id: gateId, require: asked.require, ...(of.length === 0 ? {} : { permissions: of }) },
        { signal },
      ),
    enabled: asked.require.trim() !== '',
    staleTime: Number.POSITIVE_INFINITY,
  });
  // What is said of another text than the one that is read now stands at no place of it.
  if (asked.require !== require || query.isFetching) return { fault: null, said: null };
  const { error, data } = query;
  if (error instanceof AgentTrustError && error.param === 'require')
    return { fault: error.message.replace(/^require is faulty in l/, 'L'), said: null };
  if (error !== null) return { fault: null, said: <Problem error={error} /> };
  if (data === undefined) return { fault: null, said: null };
  return {
    fault: null,
    said: (
      <div className="stack tight small" aria-live="polite">
        <span className="soft">
          {data.reads.length === 0
            ? 'It reads nothing of the request.'
            : `It reads ${data.reads.join(', ')}.`}
        </span>
        {data.warnings.map(({ permission, path, message }) => (
          <span key={`${permission} ${path}`} className="notice warn">
            {message}
          </span>
        ))}
      </div>
    ),
  };
}
