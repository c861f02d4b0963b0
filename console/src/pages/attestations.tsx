import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { decisionReasons } from '../../../shared/model/decision.ts';
import { useAddress } from '../api/address.ts';
import { type Attestation, type AttestationPage, api } from '../api/client.ts';
import { useCursorList } from '../api/lists.ts';
import { Badge } from '../ui/badge.tsx';
import { type Column, DataTable } from '../ui/data-table.tsx';
import { ExportButton } from '../ui/export-dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { microUsd, words } from '../ui/format.ts';
import { GateName, NamedIds, PassportName } from '../ui/names.tsx';
import { Empty, PageHead } from '../ui/page.tsx';
import { Period } from '../ui/period.tsx';
import { RowLink } from '../ui/row-link.tsx';
import { SavedFilters } from '../ui/saved-filters.tsx';
import { Ago } from '../ui/time.tsx';
import { ArchivedNote } from './retention.tsx';

/** Filters of the list, as the address and the API name them. */
const filters = [
  'passport_id',
  'gate_id',
  'agent_id',
  'decision',
  'reason',
  'permission_key',
  'outcome',
  'since',
  'until',
] as const;
type Query = NonNullable<Parameters<typeof api.attestations.list>[0]>;

const columns: readonly Column<Attestation>[] = [
  {
    head: 'Decision',
    width: 'minmax(90px, 1.2fr)',
    cell: (row) => (
      <div className="two-lines">
        <RowLink to={`/attestations/${row.id}`}>
          <Badge value={row.decision} />
        </RowLink>
        <span>
          {row.test ? 'gate test' : ''}
          {row.test && row.reason !== null ? ': ' : ''}
          {row.reason === null ? '' : words(row.reason)}
        </span>
      </div>
    ),
  },
  { head: 'Agent', width: 'minmax(0, 1.3fr)', cell: (row) => <PassportName id={row.passport_id} /> },
  {
    head: 'Gate',
    width: 'minmax(0, 1.3fr)',
    isWideOnly: true,
    cell: (row) => <GateName id={row.gate_id} />,
  },
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

export default function AttestationsPage(): ReactNode {
  const { search, set } = useAddress();
  const given = Object.fromEntries(
    filters.flatMap((name) => (search[name] === undefined ? [] : [[name, search[name]]])),
  ) as Query;
  const source = useCursorList<Attestation, AttestationPage>(
    ['attestations', 'list', given],
    (page) => api.attestations.list({ ...given, ...page }),
    (page) => page.attestations,
  );
  const field = (name: (typeof filters)[number]) => ({
    value: search[name] ?? '',
    onChange: (value: string) => set({ [name]: value.trim() === '' ? undefined : value.trim() }),
  });
  const isFiltered = Object.keys(given).length > 0;
  return (
    <>
      <PageHead
        title="Attestations"
        actions={
          <>
            <Link to="/verify" className="button">
              Verify an export
            </Link>
            <ExportButton path="/v1/attestations/export" file="attestations" />
          </>
        }
      >
        A signed record of every decision, newest first.
      </PageHead>
      <div className="filters">
        <Select
          label="Decision"
          options={[
            ['', 'All'],
            ['PERMIT', 'Permit'],
            ['BLOCK', 'Block'],
            ['SUSPEND', 'Suspend'],
          ]}
          {...field('decision')}
        />
        <Select
          label="Reason"
          options={[['', 'All'], ...decisionReasons.map((each) => [each, words(each)] as const)]}
          {...field('reason')}
        />
        <Select
          label="Outcome"
          options={[
            ['', 'All'],
            ['missing', 'Not reported'],
            ['served', 'Served'],
            ['failed', 'Failed'],
          ]}
          {...field('outcome')}
        />
        <TextField label="Agent id" {...field('agent_id')} />
        <TextField label="Permission" placeholder="orders:create" {...field('permission_key')} />
        <TextField label="Gate" placeholder="A name, or gate_…" list="gates" {...field('gate_id')} />
        <NamedIds id="gates" of={['gate']} />
        <TextField
          label="Passport"
          placeholder="A name, or pass_…"
          list="passports"
          {...field('passport_id')}
        />
        <NamedIds id="passports" of={['pass']} />
        <Period since={search['since']} until={search['until']} onChange={set} />
        <SavedFilters list="attestations" names={filters} />
        {isFiltered ? (
          <Link to="/attestations" search={{}} className="button">
            Clear
          </Link>
        ) : null}
      </div>
      <DataTable
        label="Attestations"
        source={source}
        empty={
          isFiltered ? (
            <Empty
              title="None match"
              action={
                <Link to="/attestations" search={{}}>
                  Show all
                </Link>
              }
            >
              No decision has all of these properties.
            </Empty>
          ) : (
            <Empty title="No decisions yet" action={<Link to="/gates">Try a gate</Link>}>
              Each decision of a gate leaves a signed record here.
            </Empty>
          )
        }
        columns={columns}
      />
      <ArchivedNote />
    </>
  );
}
