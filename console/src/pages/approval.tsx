import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useId } from '../api/address.ts';
import { type ApprovalDetail, api } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { Card, Facts, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { policyInWords } from '../ui/policy.ts';
import { Time } from '../ui/time.tsx';
import { ApprovalCard } from './approval-card.tsx';
import { RecordChain } from './record-chain.tsx';

export default function ApprovalPage(): ReactNode {
  const id = useId();
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['approvals', 'one', id],
    queryFn: () => api.approvals.get(id),
    refetchInterval: pollMs(),
  });
  const gateId = query.data?.gate_id ?? '';
  const gate = useQuery({
    queryKey: ['gates', 'one', gateId],
    queryFn: () => api.gates.get(gateId),
    enabled: gateId !== '' && may('gates:read'),
    retry: false,
  });
  const passportId = query.data?.passport_id ?? '';
  const history = useQuery({
    queryKey: ['attestations', 'of', passportId],
    queryFn: () => api.attestations.list({ passport_id: passportId, limit: 10 }),
    enabled: passportId !== '' && may('attestations:read'),
  });
  if (query.isPending) return <Waiting what="the approval" />;
  if (query.isError)
    return (
      <>
        <PageHead title="Approval" above={{ to: '/approvals', label: 'Approvals' }} />
        <Problem error={query.error} onRetry={() => void query.refetch()} />
      </>
    );
  const approval = query.data;
  return (
    <>
      <PageHead title={`Request of ${approval.agent_id}`} above={{ to: '/approvals', label: 'Approvals' }}>
        <Badge value={approval.status} />
      </PageHead>
      <div className="columns">
        <ApprovalCard key={approval.status} approval={approval} you={approval.you} />
        <Card title="The record">
          <Facts
            items={[
              ['Approval', <Id key="id" id={approval.approval_id} what="approval id" />],
              [
                'Passport',
                <Link key="pass" to={`/passports/${passportId}`}>
                  <code>{passportId}</code>
                </Link>,
              ],
              ['Request hash', <code key="hash">{approval.request_hash}</code>],
              ['Asked', <Time key="asked" at={approval.created_at} />],
              ['Ends', <Time key="ends" at={approval.expires_at} />],
              ['Answered', <Time key="answered" at={approval.resolved_at} otherwise="not yet" />],
              [
                'By',
                approval.resolved_by === null ? (
                  'nobody'
                ) : (
                  <span key="by" title={approval.resolved_by}>
                    {approval.resolved_by_name ?? 'somebody who was removed'}
                  </span>
                ),
              ],
              ['Note', approval.note ?? 'none'],
            ]}
          />
        </Card>
        <Given approval={approval} />
        {gate.data === undefined ? null : (
          <Card title="What the gate demands">
            <ul className="stack tight">
              {policyInWords(gate.data.trust_level, gate.data.constraints).map((sentence) => (
                <li key={sentence}>{sentence}</li>
              ))}
            </ul>
          </Card>
        )}
        {history.data === undefined ? null : (
          <Card title="What this agent did before">
            {history.data.attestations.length === 0 ? (
              <p className="soft">This is the first request under this passport.</p>
            ) : (
              <RecordChain records={history.data.attestations} />
            )}
          </Card>
        )}
      </div>
    </>
  );
}

/** What people have said, and what is still needed. */
function Given({ approval }: { readonly approval: ApprovalDetail }): ReactNode {
  const { answers, answers_needed: needed, answers_missing: missing } = approval;
  if (answers.length === 0 && needed === 1 && !approval.passkey) return null;
  return (
    <Card title="Answers">
      {approval.status === 'pending' ? (
        <p>
          {missing === 1 ? 'One more person has' : `${missing} more people have`} to approve
          {needed === 1 ? '' : `, ${needed} in all`}. One denial ends it.
          {approval.passkey ? ' Each answer is signed with a passkey.' : ''}
        </p>
      ) : null}
      <ul className="stack tight">
        {answers.map((answer) => (
          <li key={answer.user_id}>
            <strong>{answer.name ?? 'Somebody who was removed'}</strong> <Badge value={answer.answer} />{' '}
            <Time at={answer.at} />
            {answer.invited_by === null ? null : (
              <span className="soft small" title={answer.invited_by}>
                , invited by {answer.invited_by_name ?? 'somebody who was removed'}
              </span>
            )}
            {answer.signed ? <span className="soft small">, signed with a passkey</span> : null}
            {answer.counts ? null : (
              <span className="soft small">, does not count: this person may not answer any more</span>
            )}
            {answer.note === null ? null : <p>{answer.note}</p>}
          </li>
        ))}
      </ul>
    </Card>
  );
}
