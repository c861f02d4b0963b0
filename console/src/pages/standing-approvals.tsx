import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type StandingApproval } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { usd } from '../ui/format.ts';
import { GateName } from '../ui/names.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';
import { ApproveAhead } from './approve-ahead.tsx';

const statuses = ['active', 'expired', 'revoked', 'policy_changed'] as const;
type Status = (typeof statuses)[number];
const isStatus = (text: string | undefined): text is Status => statuses.some((each) => each === text);

const nothing = {
  for: 'passport' as const,
  ...{ gate: '', passport: '', owner: '' },
  ...{ permission: '', each: '', total: '', days: '30' },
};

/** In words, whose requests it is about. */
const whose = ({ agent_id: agent, owner }: StandingApproval): string => agent ?? `all agents of ${owner}`;

export default function StandingApprovalsPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const status: Status = isStatus(search['status']) ? search['status'] : 'active';
  const [isMaking, setMaking] = useState(false);
  return (
    <>
      <PageHead title="Standing approvals" above={{ to: '/approvals', label: 'Approvals' }}>
        Requests that are approved ahead: one agent, or all of an owner, one permission, up to an amount each
        and in all.
      </PageHead>
      <div className="filters">
        <Select
          label="Show"
          value={status}
          onChange={(next) => set({ status: next === 'active' ? undefined : next })}
          options={[
            ['active', 'In force'],
            ['expired', 'Expired'],
            ['revoked', 'Ended by hand'],
            ['policy_changed', 'Ended with a policy'],
          ]}
        />
        {may('approvals:resolve') ? (
          <button type="button" className="button primary" onClick={() => setMaking(true)}>
            Approve ahead
          </button>
        ) : null}
      </div>
      <Table status={status} />
      {isMaking ? (
        <ApproveAhead title="Approve ahead" from={nothing} onClose={() => setMaking(false)} />
      ) : null}
    </>
  );
}

function Table({ status }: { readonly status: Status }): ReactNode {
  const { may } = useSession();
  const [ending, setEnding] = useState<StandingApproval | null>(null);
  const source = useCountedList<StandingApproval>(['standing-approvals', 'list', status], (page) =>
    api.standingApprovals.list({ ...page, status }),
  );
  return (
    <>
      <DataTable
        label="Standing approvals"
        source={source}
        empty={
          <Empty title="None" action={<Link to="/approvals">Look at what waits</Link>}>
            A standing approval spares people the same question again and again.
          </Empty>
        }
        columns={[
          {
            head: 'Agent',
            width: 'minmax(0, 1.6fr)',
            cell: (row) => (
              <div className="two-lines">
                {row.passport_id === null ? (
                  <span>{whose(row)}</span>
                ) : (
                  <Link to={`/passports/${row.passport_id}`}>{row.agent_id}</Link>
                )}
                <span>{row.permission_key}</span>
              </div>
            ),
          },
          {
            head: 'Gate',
            width: 'minmax(0, 1.3fr)',
            isWideOnly: true,
            cell: (row) => <GateName id={row.gate_id} />,
          },
          { head: 'Left', width: 'minmax(120px, 1.5fr)', cell: (row) => <Left of={row} /> },
          {
            head: 'Each',
            width: 'minmax(80px, 0.7fr)',
            isNumber: true,
            isWideOnly: true,
            cell: (row) => usd(row.each_usd),
          },
          { head: 'Ends', width: '110px', isWideOnly: true, cell: (row) => <Ago at={row.expires_at} /> },
          {
            head: status === 'active' ? 'End' : 'Status',
            width: '110px',
            cell: (row) =>
              row.status === 'active' && may('approvals:resolve') ? (
                <button
                  type="button"
                  className="button danger"
                  aria-label={`End the standing approval of ${whose(row)}`}
                  onClick={() => setEnding(row)}
                >
                  End
                </button>
              ) : (
                <Badge value={row.status} />
              ),
          },
        ]}
      />
      {ending === null ? null : <End of={ending} onClose={() => setEnding(null)} />}
    </>
  );
}

/** A gauge of what is spent of the total, with its numbers in words. */
function Left({ of }: { readonly of: StandingApproval }): ReactNode {
  const part = Math.min((of.used_usd + of.leased_usd) / of.total_usd, 1);
  return (
    <div className="stack tight">
      <span className="numbers">
        {usd(of.left_usd)} of {usd(of.total_usd)}
      </span>
      <div className={`progress ${part >= 1 ? 'bad' : part >= 0.8 ? 'warn' : ''}`} aria-hidden="true">
        <div style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}

function End({ of, onClose }: { readonly of: StandingApproval; onClose(): void }): ReactNode {
  const end = useAction({
    run: () => api.standingApprovals.end(of.standing_approval_id),
    changes: ['standing-approvals'],
    done: `Ended: ${whose(of)} ${of.agent_id === null ? 'wait' : 'waits'} for a person again.`,
    onDone: onClose,
  });
  return (
    <Dialog title="End this standing approval?" onClose={onClose}>
      <Form error={end.error} onSubmit={() => end.mutate(undefined)}>
        <p>
          Requests of {whose(of)} for <code>{of.permission_key}</code> wait for a person again at once. What
          was permitted stays permitted.
        </p>
        {end.error === null ? null : <Problem error={end.error} />}
        <DialogActions onCancel={onClose} submit="End" isBusy={end.isPending} isDanger />
      </Form>
    </Dialog>
  );
}
