import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type Issuer } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge, Tier } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

export default function IssuersPage(): ReactNode {
  const { search, set } = useAddress();
  const { may } = useSession();
  const source = useCountedList<Issuer>(['issuers', 'list'], (page) => api.issuers.list(page));
  const [changed, setChanged] = useState<Issuer | null>(null);
  const create = may('issuers:create') ? (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Create an issuer
    </button>
  ) : null;
  return (
    <>
      <PageHead title="Issuers" actions={create}>
        In whose name passports are issued. Gates of other accounts may trust an issuer by its id.
      </PageHead>
      <DataTable
        label="Issuers"
        source={source}
        empty={
          <Empty title="No issuers yet" action={create}>
            The first one is made when you issue a passport.
          </Empty>
        }
        columns={[
          {
            head: 'Issuer',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <span>{row.name}</span>
                <code>{row.issuer_id}</code>
              </div>
            ),
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          { head: 'Tier', width: '56px', isWideOnly: true, cell: (row) => <Tier tier={row.trust_tier} /> },
          {
            head: 'Passports',
            width: '90px',
            isNumber: true,
            isWideOnly: true,
            cell: (row) => count(row.passport_count),
          },
          {
            head: 'Active',
            width: '70px',
            isNumber: true,
            isWideOnly: true,
            cell: (row) => count(row.active_passports),
          },
          {
            head: 'Last',
            width: '110px',
            isWideOnly: true,
            cell: (row) => <Ago at={row.last_passport_issued_at} />,
          },
          {
            head: 'Actions',
            width: '84px',
            cell: (row) =>
              may('issuers:update') ? (
                <button
                  type="button"
                  className="button small"
                  aria-label={`Change ${row.name}`}
                  onClick={() => setChanged(row)}
                >
                  Change
                </button>
              ) : null,
          },
        ]}
      />
      {search['new'] === '1' ? <CreateDialog onClose={() => set({ new: undefined })} /> : null}
      {changed === null ? null : <ChangeDialog issuer={changed} onClose={() => setChanged(null)} />}
    </>
  );
}

function CreateDialog({ onClose }: { onClose(): void }): ReactNode {
  const [name, setName] = useState('');
  const [domain, setDomain] = useState('');
  const [tier, setTier] = useState('L3');
  const create = useAction({
    run: () =>
      api.issuers.create({
        name: name.trim(),
        trust_tier: tier as 'L1' | 'L2' | 'L3',
        ...(domain.trim() === '' ? {} : { domain: domain.trim() }),
      }),
    changes: ['issuers'],
    done: 'Issuer created.',
    onDone: onClose,
  });
  return (
    <Dialog title="Create an issuer" onClose={onClose}>
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <TextField
          label="Domain"
          param="domain"
          hint="Optional. Nobody verifies it."
          placeholder="example.com"
          value={domain}
          onChange={setDomain}
        />
        <Select
          label="Highest trust tier"
          param="trust_tier"
          hint="Its passports cannot have a higher one."
          value={tier}
          onChange={setTier}
          options={[
            ['L1', 'L1'],
            ['L2', 'L2'],
            ['L3', 'L3'],
          ]}
        />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Create" isBusy={create.isPending} />
      </Form>
    </Dialog>
  );
}

function ChangeDialog({ issuer, onClose }: { readonly issuer: Issuer; onClose(): void }): ReactNode {
  const [name, setName] = useState(issuer.name);
  const [status, setStatus] = useState<string>(issuer.status);
  const save = useAction({
    run: () =>
      api.issuers.update(issuer.issuer_id, {
        name: name.trim(),
        status: status === 'suspended' ? 'suspended' : 'active',
      }),
    changes: ['issuers'],
    done: 'Saved.',
    onDone: onClose,
  });
  return (
    <Dialog title={`Change ${issuer.name}`} onClose={onClose}>
      <Form error={save.error} onSubmit={() => save.mutate(undefined)}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <Select
          label="Status"
          param="status"
          value={status}
          onChange={setStatus}
          options={[
            ['active', 'Active'],
            ['suspended', 'Suspended'],
          ]}
        />
        {status === 'suspended' && issuer.status === 'active' ? (
          <p className="notice warn">
            Its {count(issuer.active_passports)} active passports are blocked everywhere until it is active
            again.{' '}
            <Link to="/passports" search={{ status: 'active' }}>
              Look at the active passports
            </Link>
          </p>
        ) : null}
        {save.error === null ? null : <Problem error={save.error} />}
        <DialogActions
          onCancel={onClose}
          submit="Save"
          isBusy={save.isPending}
          isDanger={status === 'suspended'}
        />
      </Form>
    </Dialog>
  );
}
