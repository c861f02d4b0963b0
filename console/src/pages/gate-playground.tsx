import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type GateTest } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Select, TextArea, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count, usd, words } from '../ui/format.ts';
import { JsonView } from '../ui/json-view.tsx';
import { Card, Empty, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { factsQuery, requestOf } from './record-facts.tsx';

/** What each check looks at, in the order in which they are made. */
const checks: Readonly<Record<string, string>> = {
  passport: 'The passport is genuine, valid now, and of this mode',
  trust_level: 'Its trust tier is high enough',
  freshness: 'What the decision rests on is recent enough',
  issuer: 'Its issuer is trusted here',
  proof_of_possession: 'The agent holds its key',
  permission: 'The permission is granted, and in the catalog',
  conditions: 'The conditions of gate and passport are met',
  domain_allowlist: 'The domain is allowed',
  pii_controls: 'No forbidden personal data in the request',
  spend_limit: 'The amount is within the limits on money',
  rate_limit: 'The limits on requests are not used up',
  approval: 'Whether a person must approve it',
};

/** What is asked first. */
interface First {
  readonly permission: string;
  readonly amount: string;
  readonly domain: string;
  readonly context: string;
}

const usual: First = { permission: 'orders:create', amount: '', domain: '', context: '' };

/** Asks what the gate would decide; as a record did, where the address names one. */
export function GatePlayground({ gateId }: { readonly gateId: string }): ReactNode {
  const id = useAddress().search['record'];
  const client = useQueryClient();
  const query = useQuery({
    queryKey: ['facts', 'with its record', id],
    queryFn: async (): Promise<First> => {
      const { permission_key, amount_micro_usd, domain } = await api.attestations.get(id ?? '');
      const { facts } = await client.fetchQuery(factsQuery(id ?? ''));
      return {
        permission: permission_key ?? '',
        amount: amount_micro_usd === null ? '' : String(amount_micro_usd / 1e6),
        domain: domain ?? '',
        context: requestOf(facts),
      };
    },
    enabled: id !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (id === undefined) return <Playground gateId={gateId} first={usual} />;
  if (query.isPending) return <Waiting what="the record" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  return <Playground key={id} gateId={gateId} first={query.data} />;
}

/** It counts nowhere; the record is marked as a test. */
function Playground({ gateId, first }: { readonly gateId: string; readonly first: First }): ReactNode {
  const { may } = useSession();
  const canIssue = may('passports:issue');
  const [source, setSource] = useState(canIssue ? 'new' : 'token');
  const [token, setToken] = useState('');
  const [permission, setPermission] = useState(first.permission);
  const [tier, setTier] = useState('L1');
  const [amount, setAmount] = useState(first.amount);
  const [domain, setDomain] = useState(first.domain);
  const [context, setContext] = useState(first.context);
  const [fault, setFault] = useState<string | null>(null);

  const tokenOf = async (): Promise<string> => {
    if (source === 'token') return token.trim();
    const issued = await api.passports.issue({
      agent_id: `console-trial-${Date.now().toString(36)}`,
      agent_name: 'Trial of the console',
      permissions: [permission.trim()],
      trust_tier: tier === 'L3' ? 'L3' : tier === 'L2' ? 'L2' : 'L1',
      expires_in: '10m',
    });
    return issued.jwt;
  };
  const test = useAction({
    run: async (more: object) =>
      api.gates.test(gateId, {
        passport_token: await tokenOf(),
        ...(permission.trim() === '' ? {} : { requested_action: permission.trim() }),
        context: {
          ...more,
          ...(amount.trim() === '' ? {} : { amount: Number(amount) }),
          ...(domain.trim() === '' ? {} : { domain: domain.trim() }),
        },
      }),
  });
  const submit = () => {
    try {
      const more: unknown = context.trim() === '' ? {} : JSON.parse(context);
      if (typeof more !== 'object' || more === null) return setFault('This must be an object.');
      setFault(null);
      test.mutate(more);
    } catch (error) {
      setFault(error instanceof Error ? error.message : 'This is not JSON.');
    }
  };
  return (
    <div className="columns">
      <Form className="card" error={test.error} onSubmit={submit}>
        <h2>Ask the gate</h2>
        <Select
          label="Passport"
          param="passport_id"
          value={source}
          onChange={setSource}
          options={[
            ...(canIssue ? ([['new', 'A new one, valid for 10 minutes']] as const) : []),
            ['token', 'One that I have'],
          ]}
        />
        {source === 'token' ? (
          <TextArea
            label="Token of the passport"
            param="passport"
            hint="The service keeps no tokens, so it cannot offer them for choice."
            rows={3}
            value={token}
            onChange={setToken}
          />
        ) : (
          <Select
            label="Its trust tier"
            value={tier}
            onChange={setTier}
            options={[
              ['L1', 'L1'],
              ['L2', 'L2'],
              ['L3', 'L3'],
            ]}
          />
        )}
        <TextField
          label="Permission"
          param="request.permission_key"
          required
          value={permission}
          onChange={setPermission}
        />
        <div className="form-grid">
          <TextField
            label="Amount, USD"
            param="request.amount"
            type="number"
            min={0}
            step="any"
            placeholder="none"
            value={amount}
            onChange={setAmount}
          />
          <TextField
            label="Domain"
            param="request.domain"
            placeholder="none"
            value={domain}
            onChange={setDomain}
          />
        </div>
        <TextArea
          label="More of the request, as JSON"
          param="request"
          rows={3}
          value={context}
          onChange={setContext}
          fault={fault}
        />
        {test.error === null ? null : <Problem error={test.error} />}
        <div className="actions">
          <button type="submit" className="button primary" disabled={test.isPending}>
            {test.isPending ? 'Asking…' : 'Ask'}
          </button>
        </div>
      </Form>
      <div aria-live="polite">
        {test.data === undefined ? (
          <Empty title="The answer appears here">
            Each check is shown in order, with the one that decided. Nothing is counted or held.
          </Empty>
        ) : (
          <Answer test={test.data} />
        )}
      </div>
    </div>
  );
}

const verdicts = {
  allow: 'It would be permitted',
  block: 'It would be blocked',
  suspend: 'A person would be asked',
};

function Answer({ test }: { readonly test: GateTest }): ReactNode {
  const made = test.guardrails_evaluated;
  return (
    <Card title={verdicts[test.decision]} actions={<Badge value={test.decision} />}>
      {test.reason === null ? null : (
        <p>
          {test.detail ?? words(test.reason)} <code>{test.reason}</code>
          {test.condition === undefined ? null : (
            <>
              , by the condition <code>{test.condition}</code>
            </>
          )}
        </p>
      )}
      <LimitOf test={test} />
      <ol className="steps">
        {made.map((check, index) => {
          const isLast = index === made.length - 1;
          const tone =
            !isLast || test.decision === 'allow' ? 'good' : test.decision === 'block' ? 'bad' : 'warn';
          return (
            <li key={check} className={tone}>
              <span className="mark" aria-hidden="true">
                {tone === 'good' ? '✓' : tone === 'bad' ? '✕' : '?'}
              </span>
              <span>
                {checks[check] ?? check}
                <span className="sr-only">
                  {tone === 'good' ? ': passed' : tone === 'bad' ? ': failed' : ': needs a person'}
                </span>
                <br />
                <code className="soft">{check}</code>
              </span>
            </li>
          );
        })}
      </ol>
      <details>
        <summary>The whole answer</summary>
        <JsonView value={test} />
      </details>
    </Card>
  );
}

/** The limit that refused the request, as a gauge. */
function LimitOf({ test }: { readonly test: GateTest }): ReactNode {
  const { limit, used, requested } = test;
  if (limit === undefined || used === undefined) return null;
  const show = test.reason === 'spend_limit_exceeded' ? usd : count;
  return (
    <div className="stack tight">
      <div className="progress bad" aria-hidden="true">
        <div style={{ width: `${limit === 0 ? 100 : Math.min(100, (used / limit) * 100)}%` }} />
      </div>
      <span className="small">
        {show(used)} of {show(limit)} are used; this request needs {show(requested ?? 0)} more.
        {test.reset_at ? (
          <>
            {' '}
            The next window begins <Time at={test.reset_at} />.
          </>
        ) : null}
      </span>
    </div>
  );
}
