import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type GateWithStats } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Secret } from '../ui/copy.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Problem } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';
import { RowLink } from '../ui/row-link.tsx';
import { type Secrets, Step } from './first-request-step.tsx';

const keysLookedAt = 100;

export type Gates = readonly { readonly gate_id: string; readonly name: string }[];

export function MakeGate(): ReactNode {
  const { may } = useSession();
  const { set } = useAddress();
  const [name, setName] = useState('First gate');
  const [template, setTemplate] = useState('read-only-research');
  const templates = useQuery({
    queryKey: ['templates', 'choice'],
    queryFn: () => api.templates.list({ limit: 200 }),
    enabled: may('templates:read'),
  });
  const chosen = templates.data?.items.find(({ template_id }) => template_id === template);
  const create = useAction({
    run: () =>
      api.gates.create({
        name: name.trim(),
        template_id: template,
        ...(chosen?.trust_level ? {} : { trust_level: 'L1' as const }),
      }),
    changes: ['gates', 'totals'],
    onDone: ({ gate_id }) => set({ gate: gate_id }),
  });
  if (!may('gates:create')) return <p className="soft">Your role makes no gates. Ask an owner or admin.</p>;
  return (
    <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
      <p className="soft">A gate says which agents may do what, for how much. It can be changed later.</p>
      <div className="form-grid">
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <Select
          label="Template"
          param="template_id"
          value={template}
          onChange={setTemplate}
          options={(templates.data?.items ?? []).map(({ template_id, name: text }) => [template_id, text])}
        />
      </div>
      {chosen === undefined ? null : (
        <ul className="notice small">
          {policyInWords(chosen.trust_level ?? 'L1', chosen.constraints).map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      )}
      {create.error === null ? null : <Problem error={create.error} />}
      <div>
        <button type="submit" className="button primary" disabled={create.isPending || chosen === undefined}>
          Create the gate
        </button>
      </div>
    </Form>
  );
}

export function ChosenGate({
  gate,
  gates,
}: {
  readonly gate: GateWithStats;
  readonly gates: Gates;
}): ReactNode {
  const { set } = useAddress();
  return (
    <div className="row">
      <RowLink to={`/gates/${gate.gate_id}`}>{gate.name}</RowLink>
      <code>{gate.gate_id}</code>
      {gates.length < 2 ? null : (
        <Select
          label="Another gate"
          isLabelHidden
          value={gate.gate_id}
          onChange={(next) => set({ gate: next, permission: undefined })}
          options={gates.map(({ gate_id, name }) => [gate_id, name])}
        />
      )}
    </div>
  );
}

/** A key that asks for decisions and can do nothing else, so that a snippet with it is no danger. */
export function KeyStep({ secrets: { key, setKey } }: { readonly secrets: Secrets }): ReactNode {
  const { may } = useSession();
  const mayMake = may('keys:manage');
  const keys = useQuery({
    queryKey: ['api-keys', 'first-request'],
    queryFn: () => api.apiKeys.list({ limit: keysLookedAt }),
    enabled: mayMake,
  });
  const earlier = keys.data?.items.find(({ scopes }) => scopes.join() === 'enforcement:check');
  const make = useAction({
    run: () => api.apiKeys.create({ name: 'First guarded request', scopes: ['enforcement:check'] }),
    changes: ['api-keys'],
    onDone: (made) => setKey(made.key ?? ''),
  });
  return (
    <Step title="A key for your service" state={earlier === undefined && key === null ? 'now' : 'done'}>
      {key !== null ? (
        <Secret label="API key" text={key}>
          It asks for decisions and can do nothing else. It is shown once, and stands in the snippets below.
        </Secret>
      ) : (
        <p className="soft">
          {earlier === undefined
            ? 'Your service shows it with each question. It can ask for decisions and nothing else.'
            : `"${earlier.name}" (${earlier.prefix}…${earlier.last4}) asks for decisions. It was shown once: put it into AGENT_TRUST_API_KEY, or make another.`}
        </p>
      )}
      {make.error === null ? null : <Problem error={make.error} />}
      {mayMake ? (
        <div>
          <button
            type="button"
            className={key === null && earlier === undefined ? 'button primary' : 'button'}
            disabled={make.isPending}
            onClick={() => make.mutate(undefined)}
          >
            {key === null && earlier === undefined ? 'Make the key' : 'Make another key'}
          </button>
        </div>
      ) : (
        <p className="soft">Your role makes no keys. Ask an owner or admin for one with enforcement:check.</p>
      )}
    </Step>
  );
}
