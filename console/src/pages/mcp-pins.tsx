import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type McpPinListItem } from '../api/client.ts';
import { useCountedList } from '../api/lists.ts';
import { Badge } from '../ui/badge.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Select } from '../ui/field.tsx';
import { GateName } from '../ui/names.tsx';
import { Empty, PageHead } from '../ui/page.tsx';
import { Ago } from '../ui/time.tsx';

const statuses = ['changed', 'pinned', 'rejected'] as const;
type Status = (typeof statuses)[number];
const isStatus = (text: string | undefined): text is Status => statuses.some((each) => each === text);

/** What is unlike before, in words. */
export const changeInWords = ({ change, resembles }: Pick<McpPinListItem, 'change' | 'resembles'>): string =>
  ({
    changed: 'Its definition is another one',
    added: 'It is new',
    renamed: `It is new, and equals ${resembles} but for its name`,
    look_alike: `It is new, and its name looks like ${resembles}`,
    readded: 'It was gone, and is back',
    none: 'It is as it was pinned',
  })[change ?? 'none'];

export default function McpPinsPage(): ReactNode {
  const { search, set } = useAddress();
  const status: Status = isStatus(search['status']) ? search['status'] : 'changed';
  const source = useCountedList<McpPinListItem>(['mcp-pins', 'list', status], (page) =>
    api.mcpPins.list({ ...page, status }),
  );
  return (
    <>
      <PageHead title="MCP tools">
        Tools of MCP servers as guards saw them first. What changes since then waits for you.
      </PageHead>
      <div className="filters">
        <Select
          label="Show"
          value={status}
          onChange={(next) => set({ status: next === 'changed' ? undefined : next })}
          options={[
            ['changed', 'Changed, waiting'],
            ['pinned', 'Pinned'],
            ['rejected', 'Rejected'],
          ]}
        />
      </div>
      <DataTable
        label="MCP tools"
        source={source}
        empty={
          <Empty title={status === 'changed' ? 'Nothing waits for you' : 'None'}>
            Tools appear here when <code>agent-trust guard-mcp</code> stands before an MCP server.
          </Empty>
        }
        columns={[
          {
            head: 'Tool',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <Link to={`/mcp-pins/${row.pin_id}`}>{row.tool}</Link>
                <span>{row.upstream}</span>
              </div>
            ),
          },
          { head: 'Status', width: '110px', cell: (row) => <Badge value={row.status} /> },
          {
            head: 'What',
            width: 'minmax(0, 2fr)',
            isWideOnly: true,
            cell: (row) => changeInWords(row),
          },
          {
            head: 'Gate',
            width: 'minmax(0, 1.5fr)',
            isWideOnly: true,
            cell: (row) => <GateName id={row.gate_id} />,
          },
          {
            head: 'Since',
            width: '110px',
            isWideOnly: true,
            cell: (row) => <Ago at={row.changed_at ?? row.first_seen_at} />,
          },
        ]}
      />
    </>
  );
}
