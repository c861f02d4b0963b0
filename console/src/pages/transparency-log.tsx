import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '../api/client.ts';
import { Badge } from '../ui/badge.tsx';
import { count } from '../ui/format.ts';
import { Time } from '../ui/time.tsx';

const pollMs = 10_000;

/** The newest checkpoint of the log, and its witnesses. */
export function TransparencyLog(): ReactNode {
  const { data } = useQuery({
    queryKey: ['ready', 'log'],
    queryFn: () => api.service.ready(),
    refetchInterval: pollMs,
  });
  if (data === undefined) return null;
  const { origin, size, state, published_at, witnessed_size, witnessed_at, witnesses } = data.log;
  return (
    <section className="card" aria-label="Transparency log">
      <h2>Transparency log</h2>
      <p>
        {origin === null ? 'The log has not begun.' : <code>{origin}</code>}{' '}
        {published_at === null ? null : (
          <>
            has {count(size)} entries, <Time at={published_at} />.
          </>
        )}{' '}
        {witnesses.length > 0 && witnessed_at !== null ? (
          <>
            Its witnesses have cosigned {count(witnessed_size)} of them, <Time at={witnessed_at} />.
          </>
        ) : null}
        {witnesses.length === 0 ? 'No witnesses are set.' : null}
      </p>
      {state === 'working' ? null : (
        <p className="notice bad">
          {state === 'regressed'
            ? 'The database went back to an earlier state: nothing is signed until agent-trust recover has run.'
            : 'No quorum of the witnesses has confirmed the tree: nothing is signed until then.'}
        </p>
      )}
      {witnesses.map(({ name, fault }) => (
        <p key={name}>
          {name} <Badge value={fault === null ? 'cosigns' : fault.replaceAll('_', ' ')} />
        </p>
      ))}
    </section>
  );
}
