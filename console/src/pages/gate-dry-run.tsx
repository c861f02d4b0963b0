import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress, useGo } from '../api/address.ts';
import {
  AgentTrustError,
  api,
  type Gate,
  type ShadowPatch,
  type Shadow as Tried,
  tagOf,
} from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { DifferenceReport } from '../ui/difference.tsx';
import { Select } from '../ui/field.tsx';
import { words } from '../ui/format.ts';
import { Card, Empty, Facts, Problem, Waiting } from '../ui/page.tsx';
import { policyDifference } from '../ui/policy-difference.ts';
import { Sentences } from '../ui/sentences.tsx';
import { Ago, Time } from '../ui/time.tsx';

/** What a gate tries beside its policy, and what that would change. */
export function DryRunTab({ gate }: { readonly gate: Gate }): ReactNode {
  const query = useQuery({
    queryKey: ['gates', 'shadow', gate.gate_id],
    queryFn: () => shadowOf(gate.gate_id),
    refetchInterval: pollMs(),
  });
  const backtestId = useAddress().search['backtest'];
  if (query.isPending) return <Waiting what="the shadow" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const shadow = query.data;
  if (shadow === null && backtestId === undefined) return <NoShadow />;
  return (
    <div className="stack">
      {backtestId === undefined ? null : <BacktestOf id={backtestId} />}
      {shadow === null ? null : (
        <>
          <Shadow gate={gate} shadow={shadow} />
          <ReportOf gateId={gate.gate_id} />
        </>
      )}
    </div>
  );
}

/** Null: the gate tries nothing. */
const shadowOf = (gateId: string): Promise<Tried | null> =>
  api.gates.getShadow(gateId).catch((error: unknown) => {
    if (error instanceof AgentTrustError && error.code === 'shadow_not_found') return null;
    throw error;
  });

function NoShadow(): ReactNode {
  const { may } = useSession();
  return (
    <Empty
      title="No policy is tried here"
      action={
        may('gates:update') ? (
          <Link to="." search={{ tab: 'policy' }} className="button">
            Change the policy
          </Link>
        ) : undefined
      }
    >
      A policy that is tried decides nothing. Each record says what it would have decided, and nobody who asks
      notices.
    </Empty>
  );
}

function Shadow({ gate, shadow }: { readonly gate: Gate; readonly shadow: Tried }): ReactNode {
  const { may } = useSession();
  const end = useAction({
    run: () => api.gates.deleteShadow(gate.gate_id),
    changes: ['gates'],
    done: 'The trial is over.',
  });
  const promote = useAction({
    run: () => {
      const ifMatch = tagOf(gate);
      return api.gates.promoteShadow(gate.gate_id, ifMatch === undefined ? {} : { ifMatch });
    },
    changes: ['gates'],
    done: 'It is the policy of the gate. Sidecars follow within 2 seconds.',
  });
  const { gone, added } = policyDifference(bodyOf(gate), bodyOf(shadow));
  return (
    <Card title="Tried beside the live policy">
      <Facts
        items={[
          ['Since', <Ago key="since" at={shadow.created_at} />],
          ['Ends', <Time key="ends" at={shadow.expires_at} />],
          ['Policy', <Id key="policy" id={shadow.policy_hash} what="hash of the policy" />],
        ]}
      />
      <h3>It would demand</h3>
      {added.length === 0 ? <p className="soft">Nothing more.</p> : <Sentences of={added} />}
      <h3>It would not demand any more</h3>
      {gone.length === 0 ? <p className="soft">It keeps all of today.</p> : <Sentences of={gone} />}
      {[promote.error, end.error].map((error) =>
        error === null ? null : <Problem key={error.message} error={error} />,
      )}
      {may('gates:update') ? (
        <div className="actions">
          <button
            type="button"
            className="button"
            disabled={end.isPending}
            onClick={() => end.mutate(undefined)}
          >
            End the trial
          </button>
          <button
            type="button"
            className="button primary"
            disabled={promote.isPending}
            onClick={() => promote.mutate(undefined)}
          >
            Make it the policy
          </button>
        </div>
      ) : null}
    </Card>
  );
}

/** What the shadow has said so far. */
function ReportOf({ gateId }: { readonly gateId: string }): ReactNode {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['gates', 'shadow', gateId, 'report'],
    queryFn: () => api.gates.getShadowReport(gateId),
    enabled: may('attestations:read'),
    refetchInterval: pollMs(30_000),
  });
  if (!may('attestations:read')) return null;
  if (query.isPending) return <Waiting what="the report" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  return <DifferenceReport title="What it would have decided so far" report={query.data} />;
}

/** While it runs, its progress; then what it found. */
function BacktestOf({ id }: { readonly id: string }): ReactNode {
  const query = useQuery({
    queryKey: ['backtests', id],
    queryFn: () => api.gates.getBacktest(id),
    refetchInterval: ({ state }) => (state.data?.status === 'running' ? 1_000 : false),
  });
  const cancel = useAction({
    run: () => api.gates.cancelBacktest(id),
    changes: ['backtests'],
    done: 'Cancelled.',
  });
  if (query.isPending) return <Waiting what="the backtest" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { status, progress, reason, report } = query.data;
  if (report !== null) return <DifferenceReport title="What it would have decided" report={report} />;
  const percent = Math.floor(progress * 100);
  return (
    <Card title="What it would have decided" actions={<Badge value={status} />}>
      {status === 'running' ? (
        <>
          <div className="progress" aria-hidden="true">
            <div style={{ width: `${percent}%` }} />
          </div>
          <p role="status">{percent} % of the records are decided again.</p>
          {cancel.error === null ? null : <Problem error={cancel.error} />}
          <div className="actions">
            <button
              type="button"
              className="button"
              disabled={cancel.isPending}
              onClick={() => cancel.mutate(undefined)}
            >
              Cancel
            </button>
          </div>
        </>
      ) : (
        <p>{reason === null ? 'It was cancelled.' : `It could not be done: ${words(reason)}.`}</p>
      )}
    </Card>
  );
}

const bodyOf = ({
  trust_level,
  constraints,
  routes = [],
}: Pick<Gate, 'trust_level' | 'constraints' | 'routes'>) => ({
  ...{ trust_level, constraints, routes, catalog_version: null, catalog_hash: null },
});

const dayMs = 86_400_000;
const days = [
  ['1', 'One day'],
  ['7', '7 days'],
  ['30', '30 days'],
] as const;

/** Beside a policy that is edited: what it would do, before it does it. `patch` null: it cannot be read. */
export function TryFirst({
  gateId,
  patch,
}: {
  readonly gateId: string;
  readonly patch: ShadowPatch | null;
}): ReactNode {
  const go = useGo();
  const [length, setLength] = useState('7');
  const toDryRun = () => go(`/gates/${gateId}?tab=dry-run`);
  const { may } = useSession();
  const backtest = useAction({
    run: () => {
      const since = new Date(Date.now() - Number(length) * dayMs).toISOString();
      return api.gates.startBacktest(gateId, { ...patch, since });
    },
    onDone: ({ backtest_id: id }) => go(`/gates/${gateId}?tab=dry-run&backtest=${id}`),
  });
  const shadow = useAction({
    run: () => api.gates.putShadow(gateId, { ...patch, expires_in_s: Number(length) * (dayMs / 1_000) }),
    changes: ['gates'],
    done: 'It is tried from now on. Sidecars follow within 2 seconds.',
    onDone: toDryRun,
  });
  return (
    <Card title="Before you save">
      <p className="soft small">See what this policy would decide, while the one of today goes on.</p>
      <Select label="Time" options={days} value={length} onChange={setLength} />
      {[shadow.error, backtest.error].map((error) =>
        error === null ? null : <Problem key={error.message} error={error} />,
      )}
      <div className="actions">
        {may('attestations:read') ? (
          <button
            type="button"
            className="button"
            disabled={patch === null || backtest.isPending}
            onClick={() => backtest.mutate(undefined)}
          >
            Test it on the past
          </button>
        ) : null}
        <button
          type="button"
          className="button"
          disabled={patch === null || shadow.isPending}
          onClick={() => shadow.mutate(undefined)}
        >
          Try it from now on
        </button>
      </div>
    </Card>
  );
}
