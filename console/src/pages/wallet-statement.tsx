import { useInfiniteQuery } from '@tanstack/react-query';
import { type ReactNode, useMemo } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type WalletStatement as Statement } from '../api/client.ts';
import { DataTable } from '../ui/data-table.tsx';
import { count, usd } from '../ui/format.ts';
import { GateName, PassportName } from '../ui/names.tsx';
import { Empty } from '../ui/page.tsx';
import { Period } from '../ui/period.tsx';

const dayMs = 86_400_000;
/** The longest period of a statement. */
const daysMost = 32;

/** Whole minutes, so that the same period is one query. Default: the last 30 days. */
function periodOf(search: Readonly<Record<string, string | undefined>>) {
  const nextMinute = Math.ceil(Date.now() / 60_000) * 60_000;
  const until = search['until'] ?? new Date(nextMinute).toISOString();
  const since = search['since'] ?? new Date(Date.parse(until) - 30 * dayMs).toISOString();
  return { since, until };
}

/** What was spent, by passport, gate and permission. Of what is loaded the largest comes first. */
export function WalletStatement({ id }: { readonly id: string }): ReactNode {
  const { search, set } = useAddress();
  const asked = periodOf(search);
  const { since, until } = asked;
  const query = useInfiniteQuery({
    queryKey: ['wallets', 'statement', id, search['since'], search['until']],
    queryFn: ({ pageParam }) =>
      api.wallets.statement(id, { since, until, ...(pageParam === null ? {} : { page: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.next_page ?? undefined,
  });
  const rows = useMemo(() => {
    const lines: Statement['items'][number][] = query.data?.pages.flatMap(({ items }) => [...items]) ?? [];
    return lines.sort((one, other) => other.spent_usd - one.spent_usd);
  }, [query.data]);
  const total = query.data?.pages[0];
  return (
    <>
      <div className="filters">
        <Period since={search['since']} until={search['until']} allTime="Last 30 days" onChange={set} />
      </div>
      <p className="soft" role="status">
        {total === undefined
          ? null
          : `${usd(total.total_usd)} in ${count(total.total_requests)} PERMITs. At most ${daysMost} days at once; what is refunded later counts less here, too.`}
      </p>
      <DataTable
        label="Statement"
        source={{ ...query, rows }}
        empty={<Empty title="Nothing was spent">No PERMIT of this time has drawn on this wallet.</Empty>}
        columns={[
          {
            head: 'Agent',
            width: 'minmax(0, 2fr)',
            cell: (row) => <PassportName id={row.passport_id} />,
          },
          {
            head: 'Gate',
            width: 'minmax(0, 2fr)',
            isWideOnly: true,
            cell: (row) => <GateName id={row.gate_id} />,
          },
          {
            head: 'Permission',
            width: 'minmax(0, 2fr)',
            isWideOnly: true,
            cell: (row) => <code>{row.permission_key ?? 'not recorded'}</code>,
          },
          { head: 'PERMITs', width: '80px', isNumber: true, cell: (row) => count(row.requests) },
          { head: 'Spent', width: '110px', isNumber: true, cell: (row) => usd(row.spent_usd) },
        ]}
      />
    </>
  );
}
