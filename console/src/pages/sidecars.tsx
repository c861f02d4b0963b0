import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { pollMs } from '../api/live.ts';
import { type Sidecar, statistics } from '../api/statistics.ts';
import { count } from '../ui/format.ts';
import { Card, Problem, Waiting } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

/** Rows shown at first. */
const shownAtFirst = 6;
/** A gate at L3 accepts state that is at most this old. */
const lagMsMax = 5_000;
/** One that was connected within this time is missed; one that is away for longer was taken down. */
const missedMs = 3_600_000;

export const useSidecars = (isAllowed: boolean) =>
  useQuery({
    queryKey: ['sidecars'],
    queryFn: () => statistics.sidecars(),
    enabled: isAllowed,
    refetchInterval: pollMs(),
  });

type Health = { readonly label: string; readonly tone: 'good' | 'warn' | 'bad' | '' };

function healthOf({ is_connected, stopped_at, lag_ms, changes_behind }: Sidecar): Health {
  if (stopped_at !== null) return { label: 'stopped', tone: '' };
  if (!is_connected)
    return lag_ms < missedMs ? { label: 'missing', tone: 'bad' } : { label: 'gone', tone: '' };
  return lag_ms > lagMsMax || changes_behind > 100
    ? { label: 'behind', tone: 'warn' }
    : { label: 'current', tone: 'good' };
}

/** Sidecars that need attention. */
export const ailing = (sidecars: readonly Sidecar[]): readonly Sidecar[] =>
  sidecars.filter((sidecar) => ['warn', 'bad'].includes(healthOf(sidecar).tone));

/** Half of the decisions, and 99 in 100 of them. */
function Times({ times }: { readonly times: Sidecar['decision_times'] }): ReactNode {
  if (times === null) return <span className="soft small">not known</span>;
  if (times.p50_ms === null) return <span className="soft small">none lately</span>;
  return (
    <>
      {times.p50_ms} ms
      <br />
      <span className="soft small">99 %: {times.p99_ms} ms</span>
    </>
  );
}

/** The sidecars of the account: what they run, and how far they are behind. */
export function Sidecars(): ReactNode {
  const query = useSidecars(true);
  const [showsAll, setShowsAll] = useState(false);
  if (query.isPending) return <Waiting what="the sidecars" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { items } = query.data;
  return (
    <Card title="Sidecars">
      {items.length === 0 ? (
        <p className="soft">
          None yet. A sidecar beside your service decides in microseconds; without one the control plane
          decides.
        </p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <div className="scroll-x" tabIndex={0}>
          <table className="plain">
            <thead>
              <tr>
                <th>Sidecar</th>
                <th>State</th>
                <th className="number">Decides within</th>
              </tr>
            </thead>
            <tbody>
              {items.slice(0, showsAll ? items.length : shownAtFirst).map((sidecar) => (
                <tr key={sidecar.sidecar_id}>
                  <td>
                    <code title={sidecar.sidecar_id}>…{sidecar.sidecar_id.slice(-6)}</code>
                    <br />
                    <span className="soft small">{sidecar.version ?? 'old version'}</span>
                  </td>
                  <td>
                    <span className={`badge ${healthOf(sidecar).tone}`}>
                      <span className="dot" aria-hidden="true" />
                      {healthOf(sidecar).label}
                    </span>
                    <br />
                    <span className="soft small">
                      {sidecar.changes_behind === 0
                        ? ''
                        : `${count(sidecar.changes_behind)} changes behind, `}
                      seen <Ago at={sidecar.last_seen_at} />
                    </span>
                  </td>
                  <td className="number">
                    <Times times={sidecar.decision_times} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {items.some(({ decision_times: times }) => times !== null) ? (
        <p className="soft small">Half and 99 % of the decisions of a minute took at most so long.</p>
      ) : null}
      {items.length <= shownAtFirst || showsAll ? null : (
        <button type="button" className="button small" onClick={() => setShowsAll(true)}>
          Show all {count(items.length)}
        </button>
      )}
    </Card>
  );
}
