import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { type Attestation, type AttestationFacts, api } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { Card, Problem, Waiting } from '../ui/page.tsx';

export const factsQuery = (id: string) => ({
  queryKey: ['facts', id],
  queryFn: () => api.attestations.getFacts(id),
  // Whoever reads them is in the audit: once is enough.
  staleTime: Number.POSITIVE_INFINITY,
});

/** What the decision read: the record commits to it, and the values lie beside it. */
export function RecordFacts({ record }: { readonly record: Attestation }): ReactNode {
  const { may } = useSession();
  const [isOpen, setOpen] = useState(false);
  const query = useQuery({ ...factsQuery(record.id), enabled: isOpen });
  const opened = new Map(query.data?.facts.map((fact) => [fact.path, fact]));
  return (
    <Card title="What the decision read">
      <table className="plain">
        <thead>
          <tr>
            <th>Path</th>
            <th>Value</th>
          </tr>
        </thead>
        <tbody>
          {(record.facts ?? []).map(({ path }) => (
            <tr key={path}>
              <td>
                <code>{path}</code>
              </td>
              <td>
                {query.isSuccess ? <Value of={opened.get(path)} /> : <span className="soft">not shown</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {query.isSuccess ? (
        record.gate_id !== null && may('gates:read') ? (
          <Link to="/gates/$id" params={{ id: record.gate_id }} search={{ tab: 'try', record: record.id }}>
            Ask the gate again with these values
          </Link>
        ) : null
      ) : query.isError ? (
        <Problem error={query.error} onRetry={() => void query.refetch()} />
      ) : isOpen ? (
        <Waiting what="the values" />
      ) : (
        <div className="actions">
          <span className="soft small">Who reads them is in the audit.</span>
          <button type="button" className="button" onClick={() => setOpen(true)}>
            Show the values
          </button>
        </div>
      )}
    </Card>
  );
}

type Fact = AttestationFacts['facts'][number];

function Value({ of: fact }: { readonly of: Fact | undefined }): ReactNode {
  if (fact === undefined) return <span className="soft">not kept, or erased</span>;
  if (fact.absent) return <span className="soft">absent</span>;
  if (fact.hashed) return <span className="soft">too long to be kept; its hash is on record</span>;
  return <code>{JSON.stringify(fact.value)}</code>;
}

/** Members that the form has fields for, or that the service adds. */
const ownFields = new Set(['permission_key', 'amount', 'amount_micro_usd', 'domain']);

/** The members of `request` that these facts are about, as JSON; empty: none. */
export function requestOf(facts: readonly Fact[]): string {
  const request: Record<string, unknown> = {};
  for (const { path, value, absent, hashed } of facts) {
    const [, root, ...steps] = path
      .split('/')
      .map((each) => each.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = steps.pop();
    if (root !== 'request' || last === undefined || absent || hashed || ownFields.has(steps[0] ?? last))
      continue;
    let at = request;
    for (const step of steps) {
      if (!Object.hasOwn(at, step) || typeof at[step] !== 'object') Object.assign(at, { [step]: {} });
      at = at[step] as Record<string, unknown>;
    }
    Object.assign(at, { [last]: value });
  }
  return Object.keys(request).length === 0 ? '' : JSON.stringify(request, null, 2);
}
