import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type PermitOutcome } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { usd } from '../ui/format.ts';
import { GateName, NamedIds, PassportName } from '../ui/names.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

const statuses = ['open', 'settled', 'released', 'expired'] as const;
type Status = (typeof statuses)[number];
const isStatus = (text: string | undefined): text is Status => statuses.some((each) => each === text);

export default function HoldsPage(): ReactNode {
  const { search, set } = useAddress();
  const status: Status = isStatus(search['status']) ? search['status'] : 'open';
  const gate = search['gate_id'];
  return (
    <>
      <PageHead title="Holds">
        Money of requests whose price is known later. What is held counts as used until the service reports
        what it came to, or the hold ends.
      </PageHead>
      <div className="filters">
        <Select
          label="Show"
          value={status}
          onChange={(next) => set({ status: next === 'open' ? undefined : next })}
          options={[
            ['open', 'Open'],
            ['settled', 'Settled'],
            ['released', 'Released'],
            ['expired', 'Ended by time'],
          ]}
        />
        <TextField
          label="Gate"
          placeholder="A name, or gate_…"
          list="gates"
          value={gate ?? ''}
          onChange={(next) => set({ gate_id: next.trim() === '' ? undefined : next.trim() })}
        />
        <NamedIds id="gates" of={['gate']} />
      </div>
      <Table status={status} gate={gate} />
    </>
  );
}

function Table({ status, gate }: { readonly status: Status; readonly gate: string | undefined }): ReactNode {
  const { may } = useSession();
  const [ending, setEnding] = useState<Ending | null>(null);
  const source = useCountedList<PermitOutcome>(['outcomes', 'holds', status, gate], (page) =>
    api.holds.list({ ...page, status, ...(gate === undefined ? {} : { gate_id: gate }) }),
  );
  const mayEnd = status === 'open' && may('enforcement:check');
  return (
    <>
      <DataTable
        label="Holds"
        source={source}
        empty={
          <Empty title="None" action={<Link to="/attestations">Look at the records</Link>}>
            A request with <code>hold</code> appears here while its price is not known.
          </Empty>
        }
        columns={[
          {
            head: 'Held',
            width: 'minmax(0, 1.6fr)',
            cell: (row) => (
              <div className="two-lines">
                <Link to={`/attestations/${row.attestation_id}`}>{usd(row.hold?.amount_usd ?? 0)}</Link>
                <span>{status === 'open' ? 'held' : `counts ${usd(row.counts_usd ?? 0)}`}</span>
              </div>
            ),
          },
          {
            head: 'Agent',
            width: 'minmax(0, 1.4fr)',
            isWideOnly: true,
            cell: (row) => <PassportName id={row.passport_id} />,
          },
          {
            head: 'Gate',
            width: 'minmax(0, 1.4fr)',
            isWideOnly: true,
            cell: (row) => <GateName id={row.gate_id} />,
          },
          {
            head: 'Outcome',
            width: '110px',
            isWideOnly: true,
            cell: (row) => (row.outcome === null ? 'not reported' : <Badge value={row.outcome} />),
          },
          { head: 'Ends', width: '96px', cell: (row) => <Ago at={row.hold?.expires_at ?? ''} /> },
          {
            head: mayEnd ? 'End' : 'Status',
            width: mayEnd ? '180px' : '110px',
            cell: (row) =>
              mayEnd ? <Buttons of={row} onChoose={setEnding} /> : <Badge value={row.hold?.status ?? ''} />,
          },
        ]}
      />
      {ending === null ? null : <End {...ending} onClose={() => setEnding(null)} />}
    </>
  );
}

interface Ending {
  readonly of: PermitOutcome;
  readonly outcome: 'served' | 'failed';
}

function Buttons({
  of,
  onChoose,
}: {
  readonly of: PermitOutcome;
  onChoose(ending: Ending): void;
}): ReactNode {
  const money = usd(of.hold?.amount_usd ?? 0);
  return (
    <div className="row">
      <button
        type="button"
        className="button"
        aria-label={`Settle ${money}`}
        onClick={() => onChoose({ of, outcome: 'served' })}
      >
        Settle
      </button>
      <button
        type="button"
        className="button danger"
        aria-label={`Release ${money}`}
        onClick={() => onChoose({ of, outcome: 'failed' })}
      >
        Release
      </button>
    </div>
  );
}

/** Reports an outcome by hand, as for a program that died before it could. The first outcome stands. */
function End({ of, outcome, onClose }: Ending & { onClose(): void }): ReactNode {
  const held = of.hold?.amount_usd ?? 0;
  const [amount, setAmount] = useState(String(held));
  const end = useAction({
    run: () =>
      api.outcomes.report(of.attestation_id, {
        outcome,
        ...(outcome === 'served' ? { amount: Number(amount) } : {}),
      }),
    changes: ['outcomes', 'attestations'],
    done: ({ counts_usd }) =>
      outcome === 'served' ? `Settled: it counts ${usd(counts_usd ?? 0)}.` : 'Released: all of it is free.',
    onDone: onClose,
  });
  return (
    <Dialog title={outcome === 'served' ? 'Settle this hold?' : 'Release this hold?'} onClose={onClose}>
      <Form error={end.error} onSubmit={() => end.mutate(undefined)}>
        {outcome === 'served' ? (
          <TextField
            label="What it came to, in USD"
            hint={`${usd(held)} is held; the rest goes back.`}
            param="amount"
            type="number"
            min={0}
            step="any"
            required
            value={amount}
            onChange={setAmount}
          />
        ) : (
          <p>All of {usd(held)} goes back, as if the service was not rendered.</p>
        )}
        <p className="soft">This is on record. A later report of the service is refused.</p>
        {end.error === null ? null : <Problem error={end.error} />}
        <DialogActions
          onCancel={onClose}
          submit={outcome === 'served' ? 'Settle' : 'Release'}
          isBusy={end.isPending}
          isDanger={outcome === 'failed'}
        />
      </Form>
    </Dialog>
  );
}
