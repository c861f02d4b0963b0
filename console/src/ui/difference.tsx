import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Difference } from '../api/client.ts';
import { Badge } from './badge.tsx';
import { DecisionChart, DecisionTable } from './decision-chart.tsx';
import { count, localTime, usd, words } from './format.ts';
import { Card, Empty } from './page.tsx';

/** How a policy differs from the live one, over the decisions of some time. */
export function DifferenceReport({
  title,
  report,
}: {
  readonly title: string;
  readonly report: Difference;
}): ReactNode {
  const { decisions, different, undecided, over_time, by_agent, by_permission, examples } = report;
  const overTime = statisticsOf(over_time);
  const changed = different.reduce((sum, each) => sum + each.count, 0);
  return (
    <Card title={title}>
      <dl className="figures">
        {(
          [
            ['Decisions', decisions],
            ['Would differ', changed],
            ['Cannot be known', undecided.reduce((sum, each) => sum + each.count, 0)],
          ] as const
        ).map(([name, value]) => (
          <div key={name} className="figure">
            <dt>{name}</dt>
            <dd>{count(value)}</dd>
          </div>
        ))}
      </dl>
      <p className="soft small">
        From {localTime(report.from)} to {localTime(report.until)}.
      </p>
      {changed === 0 ? (
        <Empty title="Nothing would differ">
          {decisions === 0
            ? 'Nothing was decided in this time.'
            : 'Everybody would have had the same answer, as far as it can be known.'}
        </Empty>
      ) : (
        <>
          <DecisionChart
            data={overTime}
            labels={outcomes}
            title={`${count(changed)} of ${count(decisions)} decisions would differ`}
          />
          <Table
            heads={['Today', 'Then', 'Why']}
            rows={different.map((each) => ({
              key: `${each.from} ${each.to} ${each.reason} ${each.condition}`,
              cells: [
                <Badge key="from" value={each.from} />,
                <Badge key="to" value={each.to} />,
                <span key="why">
                  {each.reason === null ? '' : words(each.reason)} <code>{each.condition}</code>
                </span>,
              ],
              ...each,
            }))}
          />
          <Shares title="Agents" of={by_agent} nameOf={({ agent_id }) => agent_id ?? 'none that is known'} />
          <Shares
            title="Permissions"
            of={by_permission}
            nameOf={({ permission_key }) => permission_key ?? 'none'}
          />
          <details>
            <summary>Over time, as a table</summary>
            <DecisionTable data={overTime} labels={outcomes} />
          </details>
          <details>
            <summary>The newest records that would differ</summary>
            <ul className="stack tight">
              {examples.map((id) => (
                <li key={id}>
                  <Link to="/attestations/$id" params={{ id }}>
                    <code>{id}</code>
                  </Link>
                </li>
              ))}
            </ul>
          </details>
        </>
      )}
      {undecided.length === 0 ? null : (
        <details>
          <summary>What cannot be known</summary>
          <Table
            heads={['Because of']}
            rows={undecided.map((each) => ({
              key: each.cause,
              cells: [words(each.cause)],
              count: each.count,
            }))}
          />
        </details>
      )}
    </Card>
  );
}

const outcomes = ['Same answer', 'Another answer', 'Blocked by this policy only'] as const;

/** Every step from the first to the last. */
function statisticsOf({ step_s, steps }: Difference['over_time']) {
  const stepMs = step_s * 1_000;
  const [first, last] = [steps[0]?.at, steps.at(-1)?.at].map((at) => Date.parse(at ?? ''));
  const at = new Map(steps.map((each) => [Date.parse(each.at), each]));
  const length = steps.length === 0 ? 0 : ((last ?? 0) - (first ?? 0)) / stepMs + 1;
  const buckets = Array.from({ length }, (_, index) => {
    const startsAtMs = (first ?? 0) + index * stepMs;
    const { decisions = 0, different = 0, blocked = 0 } = at.get(startsAtMs) ?? {};
    const counts = [
      { decision: 'PERMIT', count: decisions - different },
      { decision: 'SUSPEND', count: different - blocked },
      { decision: 'BLOCK', count: blocked },
    ] as const;
    return {
      starts_at: new Date(startsAtMs).toISOString(),
      counts: counts.map((each) => ({ ...each, reason: null })),
    };
  });
  return { step: step_s < 86_400 ? ('hour' as const) : ('day' as const), buckets };
}

interface Row {
  readonly key: string;
  readonly cells: readonly ReactNode[];
  readonly count: number;
  readonly amount_usd?: number;
}

function Table({
  heads,
  rows,
}: {
  readonly heads: readonly string[];
  readonly rows: readonly Row[];
}): ReactNode {
  const hasMoney = rows.some(({ amount_usd = 0 }) => amount_usd > 0);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="scroll-y" tabIndex={0}>
      <table className="plain">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head}>{head}</th>
            ))}
            <th className="number">Decisions</th>
            {hasMoney ? <th className="number">USD</th> : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              {row.cells.map((cell, place) => (
                <td key={heads[place]}>{cell}</td>
              ))}
              <td className="number">{count(row.count)}</td>
              {hasMoney ? <td className="number">{usd(row.amount_usd ?? 0)}</td> : null}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Counted {
  readonly count: number;
  readonly amount_usd: number;
}

function Shares<Named extends Counted>({
  title,
  of,
  nameOf,
}: {
  readonly title: string;
  readonly of: { readonly named: readonly Named[]; readonly others: Counted };
  nameOf(row: Named): string;
}): ReactNode {
  const rows = of.named.map((each) => ({ ...each, key: nameOf(each), cells: [nameOf(each)] }));
  const others = of.others.count === 0 ? [] : [{ ...of.others, key: '', cells: ['all others'] }];
  return (
    <details>
      <summary>{title}</summary>
      <Table heads={[title]} rows={[...rows, ...others]} />
    </details>
  );
}
