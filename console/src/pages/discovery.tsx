import type { ReactNode } from 'react';
import { useState } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type Discovery } from '../api/client.ts';
import { useCursorList } from '../api/lists.ts';
import { onSubmit } from '../ui/action.ts';
import { Tier } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { usd, words } from '../ui/format.ts';
import { Empty, PageHead } from '../ui/page.tsx';

type Offer = Discovery['results'][number];

export default function DiscoveryPage(): ReactNode {
  const { search, set } = useAddress();
  const [typed, setTyped] = useState(search['capability'] ?? '');
  const capability = search['capability'] ?? '';
  return (
    <>
      <PageHead title="Discovery">What agents find: the offers in the newest catalogs of all gates.</PageHead>
      <form className="filters" onSubmit={onSubmit(() => set({ capability: typed.trim() }))}>
        <TextField
          label="What an agent looks for"
          placeholder="orders, or orders:create"
          required
          value={typed}
          onChange={setTyped}
        />
        <Select
          label="Order"
          value={search['sort'] ?? ''}
          onChange={(sort) => set({ sort })}
          options={[
            ['', 'Cheapest first'],
            ['price_desc', 'Dearest first'],
            ['uptime_desc', 'Highest uptime first'],
            ['response_asc', 'Fastest first'],
          ]}
        />
        <Select
          label="Trust level at least"
          value={search['level'] ?? ''}
          onChange={(level) => set({ level })}
          options={[
            ['', 'Any'],
            ['L1', 'L1'],
            ['L2', 'L2'],
            ['L3', 'L3'],
          ]}
        />
        <button type="submit" className="button primary">
          Search
        </button>
      </form>
      {capability === '' ? (
        <Empty title="Search as an agent does">
          A permission such as orders:create, an area such as orders, or a category of a catalog.
        </Empty>
      ) : (
        <Offers key={capability} capability={capability} sort={search['sort']} level={search['level']} />
      )}
    </>
  );
}

function Offers({
  capability,
  sort,
  level,
}: {
  readonly capability: string;
  readonly sort: string | undefined;
  readonly level: string | undefined;
}): ReactNode {
  const source = useCursorList<Offer, Discovery>(
    ['discovery', capability, sort, level],
    (page) =>
      api.gates.discover({
        capability,
        ...page,
        ...(sort === undefined ? {} : { sort: sort as 'price_desc' }),
        ...(level === undefined ? {} : { min_security_profile: level as 'L1' }),
      }),
    (page) => page.results,
  );
  return (
    <DataTable
      label="Offers"
      source={source}
      empty={
        <Empty title="Nothing is offered under this name">
          Publish a catalog at a gate, and its offers are found here within seconds.
        </Empty>
      }
      columns={[
        {
          head: 'Offer',
          width: 'minmax(0, 2fr)',
          cell: (row) => (
            <div className="two-lines">
              <span>{row.display_name ?? row.permission_key}</span>
              <code>{row.permission_key}</code>
            </div>
          ),
        },
        {
          head: 'Gate',
          width: 'minmax(0, 1.5fr)',
          cell: (row) => <span title={row.gate_id}>{row.gate_name}</span>,
        },
        {
          head: 'Price',
          width: '120px',
          isNumber: true,
          cell: ({ pricing }) =>
            pricing === null ? 'none' : `${usd(pricing.price_cents / 100)} ${words(pricing.model)}`,
        },
        {
          head: 'Level',
          width: '60px',
          isWideOnly: true,
          cell: (row) => <Tier tier={row.security_profile} />,
        },
        {
          head: 'Promises',
          width: 'minmax(0, 1fr)',
          isWideOnly: true,
          cell: ({ sla }) =>
            sla === null ? 'none' : `${sla.uptime_basis_points / 100} % up, ${sla.response_time_ms} ms`,
        },
        {
          head: 'Version',
          width: '70px',
          isNumber: true,
          isWideOnly: true,
          cell: (row) => row.catalog_version,
        },
      ]}
    />
  );
}
