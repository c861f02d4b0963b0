import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { useAddress, useGo, useId } from '../api/address.ts';
import { api, type GateWithStats, tagOf } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Tier } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { JsonView } from '../ui/json-view.tsx';
import { Limits, useUsage } from '../ui/limits.tsx';
import { Card, Facts, PageHead, Problem, Tabs, Waiting } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';
import { Sentences } from '../ui/sentences.tsx';
import { Ago, Time } from '../ui/time.tsx';
import { DecisionsOverTime } from './decisions-over-time.tsx';
import { CatalogTab } from './gate-catalog.tsx';
import { DryRunTab } from './gate-dry-run.tsx';
import { GatePlayground } from './gate-playground.tsx';
import { PolicyEditor } from './gate-policy.tsx';
import { RoutesTab } from './gate-routes.tsx';
import { RecordChain } from './record-chain.tsx';

const tabs = [
  { name: '', label: 'Overview', scope: null },
  { name: 'policy', label: 'Policy', scope: 'gates:update' },
  { name: 'dry-run', label: 'Dry run', scope: null },
  { name: 'routes', label: 'Routes', scope: null },
  { name: 'catalog', label: 'Catalog', scope: null },
  { name: 'try', label: 'Try it', scope: null },
  { name: 'json', label: 'JSON', scope: null },
] as const;

export default function GatePage(): ReactNode {
  const id = useId();
  const { search } = useAddress();
  const { may } = useSession();
  const tab = search['tab'] ?? '';
  const query = useQuery({
    queryKey: ['gates', 'one', id],
    queryFn: () => api.gates.get(id),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the gate" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const gate = query.data;
  return (
    <>
      <PageHead
        title={gate.name}
        above={{ to: '/gates', label: 'Gates' }}
        actions={may('gates:manage') ? <Remove gate={gate} /> : undefined}
      >
        <span className="row">
          <Tier tier={gate.trust_level} />
          <Id id={gate.gate_id} what="gate id" />
        </span>
        {gate.description === null ? null : <p>{gate.description}</p>}
      </PageHead>
      <Tabs
        label="Parts of this gate"
        tabs={tabs
          .filter(({ scope }) => scope === null || may(scope))
          .map(({ name, label }) => ({ name, label, isCurrent: name === tab }))}
      />
      {tab === 'policy' ? (
        <PolicyEditor gate={gate} />
      ) : tab === 'dry-run' ? (
        <DryRunTab gate={gate} />
      ) : tab === 'routes' ? (
        <RoutesTab gate={gate} />
      ) : tab === 'catalog' ? (
        <CatalogTab gateId={id} />
      ) : tab === 'try' ? (
        <GatePlayground gateId={id} />
      ) : tab === 'json' ? (
        <JsonView value={gate} />
      ) : (
        <Overview gate={gate} />
      )}
    </>
  );
}

function Overview({ gate }: { readonly gate: GateWithStats }): ReactNode {
  const { may } = useSession();
  const recent = useQuery({
    queryKey: ['attestations', 'at', gate.gate_id],
    queryFn: () => api.attestations.list({ gate_id: gate.gate_id, limit: 8 }),
    enabled: may('attestations:read'),
    refetchInterval: pollMs(),
  });
  const usage = useUsage(gate.gate_id);
  const limits = usage.data?.limits ?? [];
  const { total_requests: total, permits, blocks, last_request_at: last } = gate.stats;
  return (
    <>
      <dl className="figures">
        <div className="figure">
          <dt>Decisions</dt>
          <dd>{count(total)}</dd>
        </div>
        <div className="figure">
          <dt>Permitted</dt>
          <dd>
            {count(permits)}{' '}
            <span className="hint">{total === 0 ? '' : `${Math.round((permits / total) * 100)} %`}</span>
          </dd>
        </div>
        <div className="figure">
          <dt>Blocked</dt>
          <dd>
            {count(blocks)}{' '}
            <span className="hint">{total === 0 ? '' : `${Math.round((blocks / total) * 100)} %`}</span>
          </dd>
        </div>
        <div className="figure">
          <dt>Last</dt>
          <dd className="small">
            <Ago at={last} />
          </dd>
        </div>
      </dl>
      {may('attestations:read') && total > 0 ? <DecisionsOverTime gateId={gate.gate_id} /> : null}
      <div className="columns">
        <Card title="Policy in words">
          <Sentences of={policyInWords(gate.trust_level, gate.constraints)} />
        </Card>
        {limits.length === 0 ? null : (
          <Card title="Limits">
            <Limits limits={limits} />
          </Card>
        )}
        <Card title="Connect your service">
          <Facts
            items={[
              ['Address', <Id key="url" id={gate.gate_url} what="address of the gate" />],
              ['Created', <Time key="created" at={gate.created_at} />],
              ['Changed', <Time key="changed" at={gate.updated_at} />],
              ['By', <code key="by">{gate.last_changed_by?.id ?? 'unknown'}</code>],
            ]}
          />
          <p className="soft small">
            Ask POST {new URL(gate.gate_url).origin}/v1/gates/{gate.gate_id}/check with a key that has the
            scope enforcement:check.
          </p>
        </Card>
        {recent.data === undefined ? null : (
          <Card title="Newest decisions">
            {recent.data.attestations.length === 0 ? (
              <p className="soft">None yet. Use "Try it" to see what the gate would decide.</p>
            ) : (
              <RecordChain records={recent.data.attestations} />
            )}
          </Card>
        )}
      </div>
    </>
  );
}

function Remove({ gate }: { readonly gate: GateWithStats }): ReactNode {
  const go = useGo();
  const [isAsking, setAsking] = useState(false);
  const [typed, setTyped] = useState('');
  const remove = useAction({
    run: () => {
      const ifMatch = tagOf(gate);
      return api.gates.delete(gate.gate_id, ifMatch === undefined ? {} : { ifMatch });
    },
    changes: ['gates'],
    done: 'Gate deleted.',
    onDone: () => go('/gates'),
  });
  return (
    <>
      <button type="button" className="button danger" onClick={() => setAsking(true)}>
        Delete
      </button>
      {isAsking ? (
        <Dialog title="Delete this gate?" onClose={() => setAsking(false)}>
          <p>
            From then on nobody passes it, and its waiting approvals end. Its records stay. This cannot be
            taken back.
          </p>
          <Form error={remove.error} onSubmit={() => remove.mutate(undefined)}>
            <TextField label={`Type the name of the gate: ${gate.name}`} value={typed} onChange={setTyped} />
            {remove.error === null ? null : <Problem error={remove.error} />}
            <DialogActions
              onCancel={() => setAsking(false)}
              submit="Delete for ever"
              isBusy={remove.isPending || typed !== gate.name}
              isDanger
            />
          </Form>
        </Dialog>
      ) : null}
    </>
  );
}
