import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { AgentTrustError, api, type Policy } from '../api/client.ts';
import { JsonView } from '../ui/json-view.tsx';
import { Card, Problem, Waiting } from '../ui/page.tsx';
import { policyDifference, policySentences } from '../ui/policy-difference.ts';
import { Sentences } from '../ui/sentences.tsx';

const policyQuery = (hash: string) => ({
  queryKey: ['policies', hash],
  queryFn: () => api.gates.getPolicy(hash),
  // A policy never changes.
  staleTime: Number.POSITIVE_INFINITY,
});

/** The policy that decided a record, and what of it is another one today. */
export function PolicyInForce({
  gateId,
  hash,
}: {
  readonly gateId: string;
  readonly hash: string;
}): ReactNode {
  const kept = useQuery(policyQuery(hash));
  if (kept.isPending) return <Waiting what="the policy" />;
  const { error } = kept;
  if (error instanceof AgentTrustError && error.code === 'policy_not_found') {
    return (
      <Card title="Policy in force">
        <p>The gate is of another account. An export of your records carries its policy.</p>
      </Card>
    );
  }
  if (kept.isError) return <Problem error={error} onRetry={() => void kept.refetch()} />;
  return (
    <Card title="Policy in force">
      <Sentences of={policySentences(kept.data.body)} />
      <Today gateId={gateId} then={kept.data} />
      <details>
        <summary>As it was signed</summary>
        <JsonView value={kept.data} />
      </details>
    </Card>
  );
}

function Today({ gateId, then }: { readonly gateId: string; readonly then: Policy }): ReactNode {
  const newest = useQuery({
    queryKey: ['gates', 'newest policy', gateId],
    queryFn: () => api.gates.listPolicies(gateId, { limit: 1 }),
  });
  const hash = newest.data?.items[0]?.policy_hash ?? then.policy_hash;
  const today = useQuery({ ...policyQuery(hash), enabled: newest.isSuccess });
  if (newest.error instanceof AgentTrustError && newest.error.code === 'gate_not_found')
    return <p className="soft">The gate has been deleted since.</p>;
  const failed = newest.error ?? today.error;
  if (failed !== null) return <Problem error={failed} />;
  if (!newest.isSuccess || !today.isSuccess) return <Waiting what="the policy of today" />;
  if (hash === then.policy_hash) return <p className="soft">The gate has the same policy today.</p>;
  const { gone, added } = policyDifference(then.body, today.data.body);
  return (
    <>
      <h3>Not demanded today</h3>
      {gone.length === 0 ? <p className="soft">All of it still is.</p> : <Sentences of={gone} />}
      <h3>Demanded today only</h3>
      {added.length === 0 ? <p className="soft">Nothing more.</p> : <Sentences of={added} />}
    </>
  );
}
