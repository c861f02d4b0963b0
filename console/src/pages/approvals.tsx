import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useAddress } from '../api/address.ts';
import { type Approval, api } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { pollMs } from '../api/live.ts';
import { Badge } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Select } from '../ui/field.tsx';
import { usd } from '../ui/format.ts';
import { GateName } from '../ui/names.tsx';
import { Empty, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';
import { ApprovalCard } from './approval-card.tsx';

/** As many as a person can look through; the rest follows as these are answered. */
const shownMost = 50;

const statuses = ['pending', 'approved', 'denied', 'expired', 'used'] as const;
type Status = (typeof statuses)[number];
const isStatus = (text: string | undefined): text is Status => statuses.some((each) => each === text);

export default function ApprovalsPage(): ReactNode {
  const { search, set } = useAddress();
  const shown =
    search['status'] === 'mine' ? 'mine' : isStatus(search['status']) ? search['status'] : 'pending';
  return (
    <>
      <PageHead title="Approvals">
        Requests of agents that wait for a person, and what became of others.{' '}
        <Link to="/approvals/standing">Standing approvals</Link> spare you the same question again.
      </PageHead>
      <div className="filters">
        <Select
          label="Show"
          value={shown}
          onChange={(next) => set({ status: next === 'pending' ? undefined : next })}
          options={[
            ['pending', 'Waiting'],
            ['mine', 'Waiting for me'],
            ['approved', 'Approved, not used yet'],
            ['used', 'Approved and used'],
            ['denied', 'Denied'],
            ['expired', 'Expired'],
          ]}
        />
      </div>
      {shown === 'pending' || shown === 'mine' ? (
        <Inbox key={shown} isMine={shown === 'mine'} />
      ) : (
        <Past status={shown} />
      )}
    </>
  );
}

/** The requests that wait: all, or those that the reader may answer and has not. */
function Inbox({ isMine }: { readonly isMine: boolean }): ReactNode {
  const all = useQuery({
    queryKey: ['approvals', 'list', 'pending'],
    queryFn: () => api.approvals.list({ status: 'pending', limit: shownMost }),
    refetchInterval: pollMs(3_000),
    enabled: !isMine,
  });
  const mine = useQuery({
    queryKey: ['approvals', 'list', 'mine'],
    queryFn: () => api.approvals.list({ waiting_for: 'me', limit: isMine ? shownMost : mineMost }),
    refetchInterval: pollMs(3_000),
  });
  const query = isMine ? mine : all;
  const own = new Set(mine.data?.items.map(({ approval_id: id }) => id));
  if (query.isPending) return <Waiting what="approvals" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const { items, total } = query.data;
  if (total === 0) {
    return (
      <Empty title="Nothing waits for you" action={<Link to="/gates">Look at the gates</Link>}>
        A request appears here when a gate asks for a person, for example above an amount. Keep this page
        open: it updates by itself.
      </Empty>
    );
  }
  // The one whose time is over first comes first.
  const sorted = [...items].sort((one, other) => one.expires_at.localeCompare(other.expires_at));
  return (
    <>
      <ul className="stack" aria-label="Waiting requests">
        {sorted.map((approval, place) => (
          <li key={approval.approval_id}>
            <ApprovalCard
              approval={approval}
              you={mine.isSuccess && !own.has(approval.approval_id) ? others : null}
              linksToDetails
              showsLimits={place < limitsShown}
            />
          </li>
        ))}
      </ul>
      {total > items.length ? (
        <p className="soft">{total - items.length} more wait; they appear as you answer these.</p>
      ) : null}
    </>
  );
}

/** The most that one page of the API holds. */
const mineMost = 200;

const others = { may_answer: false, message: 'It waits for others. The details say why.' } as const;

/** Requests at the top of which the limits are shown, too. */
const limitsShown = 5;

function Past({ status }: { readonly status: Status }): ReactNode {
  const source = useCountedList<Approval>(['approvals', 'list', status], (page) =>
    api.approvals.list({ ...page, status }),
  );
  return (
    <DataTable
      label="Approvals"
      source={source}
      empty={<Empty title="None">No request has come to this end yet.</Empty>}
      columns={[
        {
          head: 'Agent',
          width: 'minmax(0, 2fr)',
          cell: (row) => (
            <div className="two-lines">
              <Link to={`/approvals/${row.approval_id}`}>{row.agent_id}</Link>
              <span>{row.permission_key ?? 'no permission'}</span>
            </div>
          ),
        },
        {
          head: 'Gate',
          width: 'minmax(0, 1.5fr)',
          isWideOnly: true,
          cell: (row) => <GateName id={row.gate_id} />,
        },
        {
          head: 'Amount',
          width: 'minmax(80px, 0.8fr)',
          isNumber: true,
          cell: (row) => (row.amount_usd === null ? '' : usd(row.amount_usd)),
        },
        { head: 'Status', width: '100px', cell: (row) => <Badge value={row.status} /> },
        {
          head: 'Note',
          width: 'minmax(0, 1.5fr)',
          isWideOnly: true,
          cell: (row) => row.note ?? <span className="soft">none</span>,
        },
        { head: 'Asked', width: '110px', isWideOnly: true, cell: (row) => <Ago at={row.created_at} /> },
      ]}
    />
  );
}
