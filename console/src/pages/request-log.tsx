import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useMemo, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { type Attestation, api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { Badge } from '../ui/badge.tsx';
import { type Column, DataTable } from '../ui/data-table.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { count, microUsd, words } from '../ui/format.ts';
import { GateName, PassportName, useNames } from '../ui/names.tsx';
import { Empty, PageHead } from '../ui/page.tsx';
import { RowLink } from '../ui/row-link.tsx';
import { Ago } from '../ui/time.tsx';

/** Decisions that the page holds: enough to see a pattern, and little enough to filter while one types. */
const keptMost = 1_000;
/** The longest page of the API: two for the beginning. */
const firstPage = 500;
/** Of a look for new ones; more are read where none of these is known yet. */
const nextPage = 100;

const queryKey = ['attestations', 'log'] as const;

const columns: readonly Column<Attestation>[] = [
  {
    head: 'Decision',
    width: 'minmax(90px, 1.2fr)',
    cell: (row) => (
      <div className="two-lines">
        <RowLink to={`/attestations/${row.id}`}>
          <Badge value={row.decision} />
        </RowLink>
        <span>{[row.test ? 'gate test' : '', row.reason === null ? '' : words(row.reason)].join(' ')}</span>
      </div>
    ),
  },
  { head: 'Agent', width: 'minmax(0, 1.3fr)', cell: (row) => <PassportName id={row.passport_id} /> },
  { head: 'Gate', width: 'minmax(0, 1.3fr)', isWideOnly: true, cell: (row) => <GateName id={row.gate_id} /> },
  {
    head: 'Permission',
    width: 'minmax(0, 1.3fr)',
    isWideOnly: true,
    cell: (row) => <code>{row.permission_key ?? ''}</code>,
  },
  {
    head: 'Amount',
    width: '90px',
    isNumber: true,
    isWideOnly: true,
    cell: (row) => (row.amount_micro_usd === null ? '' : microUsd(row.amount_micro_usd)),
  },
  { head: 'When', width: '96px', cell: (row) => <Ago at={row.timestamp} /> },
];

export default function RequestLogPage(): ReactNode {
  const { search, set } = useAddress();
  const [isPaused, setPaused] = useState(false);
  const query = useNewest(isPaused);
  const rows = useMatching(query.data ?? [], search['decision'] ?? '', search['text'] ?? '');
  const total = query.data?.length ?? 0;
  return (
    <>
      <PageHead
        title="Request log"
        actions={
          <button type="button" className="button" onClick={() => setPaused(!isPaused)}>
            {isPaused ? 'Go on' : 'Pause'}
          </button>
        }
      >
        The last {count(keptMost)} decisions as they are made. <Link to="/attestations">All records</Link>
      </PageHead>
      <div className="filters">
        <Select
          label="Decision"
          value={search['decision'] ?? ''}
          onChange={(decision) => set({ decision: decision === '' ? undefined : decision })}
          options={[
            ['', 'All'],
            ['PERMIT', 'Permit'],
            ['BLOCK', 'Block'],
            ['SUSPEND', 'Suspend'],
          ]}
        />
        <TextField
          label="Part of a name, permission or reason"
          value={search['text'] ?? ''}
          onChange={(text) => set({ text: text === '' ? undefined : text })}
        />
      </div>
      <p className="soft small" role="status">
        {isPaused ? 'Paused: ' : ''}
        {count(rows.length)} of {count(total)}
      </p>
      <DataTable
        label="Request log"
        columns={columns}
        source={{
          rows,
          isPending: query.isPending,
          error: query.error,
          hasNextPage: false,
          isFetchingNextPage: false,
          fetchNextPage: () => undefined,
          refetch: query.refetch,
        }}
        empty={
          <Empty title={total === 0 ? 'No decisions yet' : 'None match'}>
            {total === 0 ? 'Each decision of a gate appears here.' : 'Take a filter away.'}
          </Empty>
        }
      />
    </>
  );
}

/** The newest decisions. What is held already is not read again. */
function useNewest(isPaused: boolean) {
  const client = useQueryClient();
  return useQuery({
    queryKey,
    queryFn: () => withNewest(client.getQueryData<readonly Attestation[]>(queryKey) ?? []),
    enabled: !isPaused,
    refetchInterval: pollMs(3_000),
    structuralSharing: false,
  });
}

async function withNewest(held: readonly Attestation[]): Promise<readonly Attestation[]> {
  const known = new Map(held.map((each) => [each.id, each]));
  const limit = held.length === 0 ? firstPage : nextPage;
  const read: Attestation[] = [];
  let cursor: string | null = null;
  do {
    const page = { limit, ...(cursor === null ? {} : { cursor }) };
    const { attestations, next_cursor } = await api.attestations.list(page);
    read.push(...attestations);
    cursor = attestations.some(({ id }) => known.has(id)) ? null : next_cursor;
  } while (cursor !== null && read.length < keptMost);
  for (const each of read) known.set(each.id, each);
  // Ids sort by time. A record of a sidecar may arrive after younger ones.
  return [...known.values()].toSorted((one, other) => (one.id < other.id ? 1 : -1)).slice(0, keptMost);
}

function useMatching(all: readonly Attestation[], decision: string, text: string): readonly Attestation[] {
  const gates = useNames('gate').data;
  const agents = useNames('pass').data;
  return useMemo(() => {
    const part = text.trim().toLowerCase();
    const textOf = (row: Attestation) => [
      ...[row.id, row.permission_key, row.reason, row.gate_id, row.passport_id],
      ...[gates?.get(row.gate_id ?? ''), agents?.get(row.passport_id ?? '')],
    ];
    return all.filter(
      (row) =>
        (decision === '' || row.decision === decision) &&
        (part === '' || textOf(row).some((each) => each?.toLowerCase().includes(part))),
    );
  }, [all, decision, text, gates, agents]);
}
