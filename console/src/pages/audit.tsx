import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useAddress } from '../api/address.ts';
import { type AuditEntry, api, type AuditPage as Page } from '../api/client.ts';
import { useCursorList } from '../api/lists.ts';
import { placeOfId } from '../navigation.ts';
import { Id } from '../ui/copy.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ExportLink } from '../ui/export-link.tsx';
import { TextField } from '../ui/field.tsx';
import { KnownName, NamedIds } from '../ui/names.tsx';
import { Empty, Facts, PageHead } from '../ui/page.tsx';
import { Period } from '../ui/period.tsx';
import { SavedFilters } from '../ui/saved-filters.tsx';
import { Ago, Time } from '../ui/time.tsx';

const filters = ['actor', 'operation', 'target', 'since', 'until'] as const;
type Query = NonNullable<Parameters<typeof api.audit.list>[0]>;

/** `revokePassport` as `revoke passport`. */
const operationWords = (operation: string): string =>
  operation.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

const actorKinds: Readonly<Record<string, string>> = {
  api_key: 'API key',
  access_token: 'access token',
  user: 'person',
};

export default function AuditPage(): ReactNode {
  const { search, set } = useAddress();
  const given = Object.fromEntries(
    filters.flatMap((name) => (search[name] === undefined ? [] : [[name, search[name]]])),
  ) as Query;
  const source = useCursorList<AuditEntry, Page>(
    ['audit', 'list', given],
    (page) => api.audit.list({ ...given, ...page }),
    (page) => page.entries,
  );
  const field = (name: (typeof filters)[number]) => ({
    value: search[name] ?? '',
    onChange: (value: string) => set({ [name]: value.trim() === '' ? undefined : value.trim() }),
  });
  const opened = source.rows.find(({ audit_id }) => audit_id === search['entry']);
  const isFiltered = Object.keys(given).length > 0;
  return (
    <>
      <PageHead
        title="Audit"
        actions={
          <ExportLink path="/v1/audit/export" file="audit.jsonl">
            Export
          </ExportLink>
        }
      >
        Who changed what, in a signed chain.
      </PageHead>
      <div className="filters">
        <TextField label="Who" placeholder="A name, key_… or usr_…" list="actors" {...field('actor')} />
        <NamedIds id="actors" of={['usr', 'key']} />
        <TextField label="Operation" placeholder="updateGate" {...field('operation')} />
        <TextField label="What" placeholder="A name, or an id" list="targets" {...field('target')} />
        <NamedIds id="targets" of={['gate', 'pass', 'key', 'usr', 'iss', 'wh']} />
        <Period since={search['since']} until={search['until']} onChange={set} />
        <SavedFilters list="audit" names={filters} />
        {isFiltered ? (
          <Link to="/audit" search={{}} className="button">
            Clear
          </Link>
        ) : null}
      </div>
      <DataTable
        label="Audit entries"
        source={source}
        empty={
          <Empty title={isFiltered ? 'None match' : 'Nothing was changed yet'}>
            {isFiltered ? 'Take a filter away.' : 'Every change through the console or the API appears here.'}
          </Empty>
        }
        columns={[
          {
            head: 'What happened',
            width: 'minmax(0, 1.6fr)',
            cell: (row) => (
              <div className="two-lines">
                <Link to="." search={(before: object) => ({ ...before, entry: row.audit_id })}>
                  {operationWords(row.operation)}
                </Link>
                <span>
                  <KnownName id={row.target} /> <code>{row.target}</code>
                </span>
              </div>
            ),
          },
          {
            head: 'Who',
            width: 'minmax(0, 1.4fr)',
            isWideOnly: true,
            cell: (row) => (
              <div className="two-lines">
                <span>
                  <KnownName id={row.actor.id} /> <code>{row.actor.id}</code>
                </span>
                <span>{actorKinds[row.actor.type] ?? row.actor.type}</span>
              </div>
            ),
          },
          { head: 'No.', width: '70px', isNumber: true, isWideOnly: true, cell: (row) => row.sequence },
          { head: 'When', width: '110px', cell: (row) => <Ago at={row.created_at} /> },
        ]}
      />
      {opened === undefined ? null : <EntryDialog entry={opened} onClose={() => set({ entry: undefined })} />}
    </>
  );
}

function EntryDialog({ entry, onClose }: { readonly entry: AuditEntry; onClose(): void }): ReactNode {
  const place = placeOfId(entry.target);
  return (
    <Dialog title={operationWords(entry.operation)} onClose={onClose} className="wide">
      <Facts
        items={[
          ['When', <Time key="when" at={entry.created_at} />],
          [
            'Who',
            <span key="who">
              <KnownName id={entry.actor.id} isLink /> <Id id={entry.actor.id} what="actor id" />
            </span>,
          ],
          [
            'What',
            <span key="what">
              <KnownName id={entry.target} isLink /> <Id id={entry.target} what="target id" />
            </span>,
          ],
          ['Request', <Id key="request" id={entry.request_id} what="request id" />],
          ['Place in the chain', String(entry.sequence)],
          ['Hash', <code key="hash">{entry.hash}</code>],
        ]}
      />
      <Changes entry={entry} />
      <div className="actions">
        {place === null ? null : (
          <Link to={place} className="button">
            Open what was changed
          </Link>
        )}
        <button type="button" className="button primary" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

const show = (value: unknown): string => (value === undefined ? 'nothing' : JSON.stringify(value, null, 1));

function Changes({ entry: { before, after } }: { readonly entry: AuditEntry }): ReactNode {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  if (names.length === 0) return null;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className="scroll-x" tabIndex={0}>
      <table className="plain">
        <thead>
          <tr>
            <th>Member</th>
            <th>Before</th>
            <th>After</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <td>{name}</td>
              <td>
                <code>{show(before?.[name])}</code>
              </td>
              <td>
                <code>{show(after?.[name])}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
