import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Attestation } from '../api/client.ts';
import { Badge } from '../ui/badge.tsx';
import { microUsd, words } from '../ui/format.ts';
import { GateName } from '../ui/names.tsx';
import { Ago } from '../ui/time.tsx';

/** Records one under the other, newest first, with what links them. */
export function RecordChain({
  records,
  current,
}: {
  readonly records: readonly Attestation[];
  readonly current?: string;
}): ReactNode {
  return (
    <ol className="chain">
      {records.map((record) => (
        <li key={record.id} className={record.decision}>
          <div className="row">
            <Badge value={record.decision} />
            {record.reason === null ? null : <span>{words(record.reason)}</span>}
            {record.resolution === null ? null : <Badge value={record.resolution} />}
            {record.test ? <span className="badge">test</span> : null}
          </div>
          <div className="small">
            {record.permission_key ?? 'no permission'}
            {record.amount_micro_usd === null ? '' : `, ${microUsd(record.amount_micro_usd)}`}
            {' at '}
            <GateName id={record.gate_id} />
          </div>
          <div className="row small soft">
            <span>No. {record.sequence}</span>
            <Ago at={record.timestamp} />
            {record.id === current ? (
              <strong>this record</strong>
            ) : (
              <Link to={`/attestations/${record.id}`}>
                Open<span className="sr-only"> record {record.sequence}</span>
              </Link>
            )}
          </div>
        </li>
      ))}
    </ol>
  );
}
