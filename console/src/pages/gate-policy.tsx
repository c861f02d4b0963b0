import { type ReactNode, useMemo, useState } from 'react';
import { api, type Gate, type GateConstraints, tagOf } from '../api/client.ts';
import { useAction } from '../ui/action.ts';
import { Check, Select, TextArea, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Card, Problem } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';
import { proofChoiceOf, proofChoices, proofDemandOf } from '../ui/proof-choice.ts';
import {
  Answering,
  type AnswersDraft,
  answersOf,
  approversOf,
  listOf,
  numberOf,
  textOf,
} from './gate-answers.tsx';
import { type ConditionDraft, Conditions, conditionDraftsOf, conditionsOf } from './gate-conditions.tsx';
import { TryFirst } from './gate-dry-run.tsx';

/** What the form holds, as text; empty is no limit. */
interface Draft extends AnswersDraft {
  readonly name: string;
  readonly description: string;
  readonly level: string;
  readonly perTransaction: string;
  readonly daily: string;
  readonly monthly: string;
  readonly spendPer: string;
  readonly unpriced: string;
  readonly perMinute: string;
  readonly perHour: string;
  readonly perDay: string;
  readonly ratePer: string;
  readonly above: string;
  readonly permissions: string;
  readonly expires: string;
  readonly domains: string;
  readonly pii: string;
  readonly issuers: string;
  readonly proof: string;
  readonly conditions: readonly ConditionDraft[];
}

function draftOf(gate: Pick<Gate, 'name' | 'description' | 'trust_level'>, policy: GateConstraints): Draft {
  const { spend_limits: spend, rate_limits: rate, approvals } = policy;
  return {
    name: gate.name,
    description: gate.description ?? '',
    level: gate.trust_level,
    perTransaction: textOf(spend?.per_transaction_usd),
    daily: textOf(spend?.daily_usd),
    monthly: textOf(spend?.monthly_usd),
    spendPer: spend?.per ?? 'gate',
    unpriced: spend?.unpriced ?? 'block',
    perMinute: textOf(rate?.requests_per_minute),
    perHour: textOf(rate?.requests_per_hour),
    perDay: textOf(rate?.requests_per_day),
    ratePer: rate?.per ?? 'gate',
    above: textOf(approvals?.above_usd),
    permissions: (approvals?.permissions ?? []).join('\n'),
    expires: textOf(approvals?.expires_in_s),
    ...answersOf(approvals),
    domains: (policy.allowed_domains ?? []).join('\n'),
    pii: policy.pii_controls?.mode ?? '',
    issuers: (policy.trusted_issuers ?? []).join('\n'),
    proof: proofChoiceOf(policy.proof_of_possession),
    conditions: conditionDraftsOf(policy.conditions),
  };
}

/** Members without a value are left out; null where nothing is left, which removes it. */
function compact<T extends object>(members: T): Partial<T> | null {
  const kept = Object.entries(members).filter(([, value]) => value !== undefined);
  return kept.length === 0 ? null : (Object.fromEntries(kept) as Partial<T>);
}

const isAnyGiven = (...values: readonly unknown[]): boolean => values.some((value) => value !== undefined);

/** The constraints that the form describes, beside those that it does not show. */
function constraintsOf(draft: Draft, before: GateConstraints): GateConstraints {
  const money = {
    per_transaction_usd: numberOf(draft.perTransaction),
    daily_usd: numberOf(draft.daily),
    monthly_usd: numberOf(draft.monthly),
  };
  const above = numberOf(draft.above);
  const hasMoney = isAnyGiven(...Object.values(money), above);
  const rates = {
    requests_per_minute: numberOf(draft.perMinute),
    requests_per_hour: numberOf(draft.perHour),
    requests_per_day: numberOf(draft.perDay),
  };
  const permissions = listOf(draft.permissions);
  const domains = listOf(draft.domains);
  const issuers = listOf(draft.issuers);
  const approvers = approversOf(draft);
  const passkey = draft.passkey === 'yes' ? true : undefined;
  const expires = numberOf(draft.expires);
  // A rule about answers alone is for what the catalog or a passport wants approved.
  const hasApprovals =
    above !== undefined || permissions.length > 0 || isAnyGiven(approvers, passkey, expires);
  const next = {
    ...before,
    spend_limits: hasMoney
      ? compact({
          ...money,
          per: perOf(draft.spendPer),
          unpriced: draft.unpriced === 'permit' ? 'permit' : undefined,
          alert_at: before.spend_limits?.alert_at ?? undefined,
        })
      : null,
    rate_limits: isAnyGiven(...Object.values(rates))
      ? compact({ ...rates, per: perOf(draft.ratePer) })
      : null,
    approvals: hasApprovals
      ? compact({
          above_usd: above,
          permissions: permissions.length > 0 ? permissions : undefined,
          expires_in_s: expires,
          approvers,
          passkey,
        })
      : null,
    allowed_domains: domains.length > 0 ? domains : null,
    trusted_issuers: issuers.length > 0 ? issuers : null,
    proof_of_possession: proofDemandOf(draft.proof),
    conditions: draft.conditions.length > 0 ? conditionsOf(draft.conditions) : null,
    pii_controls:
      draft.pii === ''
        ? null
        : { ...before.pii_controls, mode: draft.pii as 'log_only' | 'redact' | 'block' },
  };
  return Object.fromEntries(Object.entries(next).filter(([, value]) => value !== null)) as GateConstraints;
}

type Members = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A merge patch that makes `next` of `before`: null for what is gone, at every level. */
function patchOf(before: Members, next: Members): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(next)])) {
    const [was, is] = [before[name], next[name]];
    if (JSON.stringify(was) === JSON.stringify(is)) continue;
    if (is === undefined) patch[name] = null;
    else patch[name] = isObject(was) && isObject(is) ? patchOf(was, is) : is;
  }
  return patch;
}

/** Either as a form or as JSON; what it means is beside both, as it is typed. */
export function PolicyEditor({ gate }: { readonly gate: Gate }): ReactNode {
  // The version read when editing began: another person's change meanwhile is a conflict and not overwritten.
  const [before, setBefore] = useState(gate);
  const [draft, setDraft] = useState(() => draftOf(gate, gate.constraints));
  const [json, setJson] = useState<string | null>(null);
  const parsed = useMemo(() => (json === null ? null : parse(json)), [json]);
  const next = parsed === null ? constraintsOf(draft, before.constraints) : parsed.value;
  const patch = {
    trust_level: draft.level as 'L1' | 'L2' | 'L3',
    constraints: patchOf({ ...before.constraints }, { ...(next ?? before.constraints) }),
  };
  const save = useAction({
    run: () => {
      const ifMatch = tagOf(before);
      const description = draft.description.trim();
      const body = {
        name: draft.name.trim(),
        description: description === '' ? null : description,
        trust_profile: patch.trust_level,
        ...patch,
      };
      return api.gates.update(before.gate_id, body, ifMatch === undefined ? {} : { ifMatch });
    },
    changes: ['gates'],
    done: 'Saved. Sidecars follow within 2 seconds.',
    onDone: (saved) => {
      setBefore(saved);
      setDraft(draftOf(saved, saved.constraints));
      if (json !== null) setJson(JSON.stringify(saved.constraints, null, 2));
    },
  });
  const field = (name: Exclude<keyof Draft, 'conditions'>) => ({
    value: draft[name],
    onChange: (value: string) => setDraft({ ...draft, [name]: value }),
  });
  const money = { type: 'number', min: 0, step: 'any', placeholder: 'no limit' } as const;
  const rate = { type: 'number', min: 0, step: 1, placeholder: 'no limit' } as const;
  return (
    <Form className="columns" error={save.error} onSubmit={() => save.mutate(undefined)}>
      <div className="stack">
        <Card title="Gate">
          <TextField label="Name" param="name" required maxLength={200} {...field('name')} />
          <TextArea label="Description" param="description" rows={2} {...field('description')} />
          <Select
            label="Trust level"
            param="trust_level"
            options={[
              ['L1', 'L1: every valid passport'],
              ['L2', 'L2: tier L2 or L3'],
              ['L3', 'L3: tier L3 only'],
            ]}
            {...field('level')}
          />
          <Check
            label="Edit the policy as JSON"
            checked={json !== null}
            onChange={(isJson) => {
              if (isJson) setJson(JSON.stringify(next, null, 2));
              else {
                if (next !== null)
                  setDraft(draftOf({ ...before, ...draft, trust_level: draft.level as 'L1' }, next));
                setJson(null);
              }
            }}
          />
        </Card>
        {json === null ? (
          <>
            <Card title="Money">
              <div className="form-grid">
                <TextField
                  label="One request, USD"
                  param="constraints.spend_limits.per_transaction_usd"
                  {...money}
                  {...field('perTransaction')}
                />
                <TextField
                  label="A day, USD"
                  param="constraints.spend_limits.daily_usd"
                  {...money}
                  {...field('daily')}
                />
                <TextField
                  label="A month, USD"
                  param="constraints.spend_limits.monthly_usd"
                  {...money}
                  {...field('monthly')}
                />
                <Select label="Counted" options={perOptions} {...field('spendPer')} />
                <Select
                  label="Without an amount"
                  param="constraints.spend_limits.amount_required"
                  options={[
                    ['block', 'Block'],
                    ['permit', 'Count as 0'],
                  ]}
                  {...field('unpriced')}
                />
              </div>
            </Card>
            <Card title="Requests">
              <div className="form-grid">
                <TextField
                  label="A minute"
                  param="constraints.rate_limits.requests_per_minute"
                  {...rate}
                  {...field('perMinute')}
                />
                <TextField
                  label="An hour"
                  param="constraints.rate_limits.requests_per_hour"
                  {...rate}
                  {...field('perHour')}
                />
                <TextField
                  label="A day"
                  param="constraints.rate_limits.requests_per_day"
                  {...rate}
                  {...field('perDay')}
                />
                <Select label="Counted" options={perOptions} {...field('ratePer')} />
              </div>
            </Card>
            <Card title="Approval by a person">
              <div className="form-grid">
                <TextField
                  label="Above, USD"
                  param="constraints.approvals.above_usd"
                  {...money}
                  placeholder="never"
                  {...field('above')}
                />
                <TextField
                  label="Seconds to answer"
                  param="constraints.approvals.expires_in_s"
                  type="number"
                  min={1}
                  max={604_800}
                  placeholder="3600"
                  {...field('expires')}
                />
              </div>
              <TextArea
                label="For these permissions"
                param="constraints.approvals.permissions"
                hint="One a line, such as orders:refund or orders:*."
                rows={2}
                {...field('permissions')}
              />
              <Answering isByPeople={draft.answers === 'people'} field={field} />
            </Card>
            <Conditions
              gateId={before.gate_id}
              drafts={draft.conditions}
              onChange={(conditions) => {
                setDraft({ ...draft, conditions });
                // It was said of another text.
                save.reset();
              }}
            />
            <Card title="What else is checked">
              <TextArea
                label="Allowed domains"
                param="constraints.allowed_domains"
                hint="One a line: api.example.com, or *.example.com. None: every domain."
                rows={2}
                {...field('domains')}
              />
              <Select
                label="Personal data in requests"
                param="constraints.pii_controls"
                options={[
                  ['', 'Do not look'],
                  ['log_only', 'Record what is found'],
                  ['redact', 'Remove it'],
                  ['block', 'Block the request'],
                ]}
                {...field('pii')}
              />
              <TextArea
                label="Trusted issuers"
                param="constraints.trusted_issuers"
                hint="Ids of issuers, own, or * for all. None: the issuers of this account."
                rows={2}
                {...field('issuers')}
              />
              <Select
                label="Proof that the agent holds its key"
                param="constraints.proof_of_possession"
                options={proofChoices}
                {...field('proof')}
              />
            </Card>
          </>
        ) : (
          <Card title="Policy as JSON">
            <TextArea
              label="constraints"
              param="constraints"
              isCode
              value={json}
              onChange={setJson}
              fault={parsed?.fault ?? null}
            />
          </Card>
        )}
      </div>
      <div className="stack" style={{ position: 'sticky', top: 72 }}>
        <Card title="What this means">
          {next === null ? (
            <p className="soft">The JSON cannot be read yet.</p>
          ) : (
            <ul className="stack tight" aria-live="polite">
              {policyInWords(draft.level, next).map((sentence) => (
                <li key={sentence}>{sentence}</li>
              ))}
            </ul>
          )}
        </Card>
        {save.error === null ? null : <Problem error={save.error} />}
        <div className="actions">
          <button type="submit" className="button primary" disabled={save.isPending || next === null}>
            {save.isPending ? 'Saving…' : 'Save the policy'}
          </button>
        </div>
        <p className="soft small">
          Changing the policy ends approvals that wait at this gate, because they were asked under the old
          one.
        </p>
        <TryFirst gateId={before.gate_id} patch={next === null ? null : patch} />
      </div>
    </Form>
  );
}

/** Undefined: for all together, which is the default. */
const perOf = (chosen: string) => (chosen === 'passport' || chosen === 'user' ? chosen : undefined);

const perOptions = [
  ['gate', 'For all passports together'],
  ['passport', 'For each passport'],
  ['user', 'For each user, or passport without one'],
] as const;

function parse(text: string): { readonly value: GateConstraints | null; readonly fault: string | null } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { value, fault: null };
    return { value: null, fault: 'This must be an object.' };
  } catch (error) {
    return { value: null, fault: error instanceof Error ? error.message : 'This is not JSON.' };
  }
}
