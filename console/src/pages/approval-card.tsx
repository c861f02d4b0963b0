import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { answerApproval } from '../api/answers.ts';
import { type Approval, type ApprovalDetail, api } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import type { LimitUsage } from '../api/statistics.ts';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { TextField } from '../ui/field.tsx';
import { FieldFaults } from '../ui/form.tsx';
import { usd } from '../ui/format.ts';
import { Limits, useUsage } from '../ui/limits.tsx';
import { GateName } from '../ui/names.tsx';
import { Facts } from '../ui/page.tsx';
import { PasskeyProblem } from '../ui/passkey-problem.tsx';
import { Ago, Countdown, useNow } from '../ui/time.tsx';
import { ApproveAhead } from './approve-ahead.tsx';

/** One request that waits: what is asked, by whom, for how much, how long there is, and the two answers. */
export function ApprovalCard({
  approval,
  you = null,
  linksToDetails = false,
  showsLimits = true,
}: {
  readonly approval: Approval;
  /** Whether the reader may answer. Null: not known; who may not is told by the service. */
  readonly you?: Pick<ApprovalDetail['you'], 'may_answer' | 'message'> | null;
  readonly linksToDetails?: boolean;
  /** Each costs a request of its own. */
  readonly showsLimits?: boolean;
}): ReactNode {
  const { approval_id: id, amount_usd: amount, agent_id: agent, permission_key: permission } = approval;
  const { may } = useSession();
  const isOver = useNow() >= Date.parse(approval.expires_at);
  const purpose = timeIsTo[approval.status];
  const mayAnswer = may('approvals:resolve') && you?.may_answer !== false;
  return (
    <article className="card approval" aria-label={`Request of ${agent}`}>
      <div className="row between">
        <span className="amount">{amount === null ? 'No amount' : usd(amount)}</span>
        {purpose === undefined ? null : (
          <span className="soft">
            {isOver ? (
              `The time to ${purpose} is over`
            ) : (
              <>
                Time left to {purpose}: <Countdown at={approval.expires_at} />
              </>
            )}
          </span>
        )}
      </div>
      {approval.display === null ? null : <Asked display={approval.display} />}
      <Facts
        items={[
          [
            'Agent',
            <Link key="agent" to={`/passports/${approval.passport_id}`}>
              {agent}
            </Link>,
          ],
          ...(approval.user === null ? [] : [['For', approval.user] as const]),
          ['Wants to', <code key="permission">{permission ?? 'nothing named'}</code>],
          ['At', <GateName key="gate" id={approval.gate_id} />],
          ['Asked', <Ago key="asked" at={approval.created_at} />],
        ]}
      />
      {showsLimits && may('gates:read') ? (
        <Left gateId={approval.gate_id} passportId={approval.passport_id} />
      ) : null}
      {linksToDetails ? (
        <div className="row small">
          <Link to={`/approvals/${id}`}>Details and history of this agent</Link>
        </div>
      ) : null}
      {mayAnswer && approval.status === 'pending' ? (
        <Answers key={approval.answers.length} approval={approval} isOver={isOver} />
      ) : (
        <div className="row">
          <Badge value={approval.status} />
          {approval.status === 'pending' ? (
            <span className="soft">
              {you?.message ?? 'Your role may look at approvals, but not answer them.'}
            </span>
          ) : null}
        </div>
      )}
    </article>
  );
}

/** What there is time for. */
const timeIsTo: Readonly<Partial<Record<Approval['status'], string>>> = {
  pending: 'answer',
  approved: 'use it',
};

/** Both answers, with a note. */
function Answers({ approval, isOver }: { readonly approval: Approval; readonly isOver: boolean }): ReactNode {
  const { approval_id: id, amount_usd: amount, agent_id: agent, permission_key: permission } = approval;
  const [note, setNote] = useState('');
  const [isAhead, setAhead] = useState(false);
  const given = { note: note.trim() === '' ? null : note.trim(), amountUsd: amount };
  const changes = ['approvals'];
  const undo = () => api.approvals.undo(id);
  const approve = useAction({
    run: () => answerApproval(id, { ...given, word: 'approve' }),
    changes,
    done: ({ status }) =>
      status === 'pending' ? 'Approved by you. It waits for others.' : `Approved: ${agent} may go on.`,
    undo,
  });
  const deny = useAction({
    run: () => answerApproval(id, { ...given, word: 'deny' }),
    changes,
    done: `Denied: ${agent} is blocked.`,
    undo,
  });
  const isBusy = approve.isPending || deny.isPending || approve.isSuccess || deny.isSuccess;
  const error = approve.error ?? deny.error;
  return (
    <>
      <FieldFaults error={error}>
        <TextField
          label="Note"
          param="note"
          hint="Optional. It is kept in the record."
          maxLength={500}
          value={note}
          onChange={setNote}
        />
        {error === null ? null : <PasskeyProblem error={error} />}
        <div className="row">
          <button
            type="button"
            className="button primary large"
            disabled={isBusy || isOver}
            onClick={() => approve.mutate(undefined)}
          >
            {approve.isPending ? 'Approving…' : amount === null ? 'Approve' : `Approve ${usd(amount)}`}
          </button>
          <button
            type="button"
            className="button danger large"
            disabled={isBusy || isOver}
            onClick={() => deny.mutate(undefined)}
          >
            {deny.isPending ? 'Denying…' : 'Deny'}
          </button>
          {amount === null || amount === 0 || permission === null ? null : (
            <button
              type="button"
              className="button large"
              disabled={isBusy || isOver}
              onClick={() => setAhead(true)}
            >
              Also the next ones like it…
            </button>
          )}
        </div>
      </FieldFaults>
      {isAhead && amount !== null && permission !== null ? (
        <ApproveAhead
          title="Approve, and the next ones like it"
          from={{
            gate: approval.gate_id,
            ...{ for: 'passport', passport: approval.passport_id, owner: '' },
            permission,
            each: String(amount),
            total: String(amount * 10),
            days: '30',
          }}
          isGiven
          onMade={() => approve.mutate(undefined)}
          onClose={() => setAhead(false)}
        />
      ) : null}
    </>
  );
}

/**
 * What is asked, in the words of the resource server: only text, and a link whose whole address can be read.
 */
function Asked({ display }: { readonly display: NonNullable<Approval['display']> }): ReactNode {
  const { title, lines, url } = display;
  return (
    <section className="asked" aria-label="What is asked">
      <strong>{title}</strong>
      {lines.length === 0 ? null : (
        <dl className="facts">
          {lines.map(({ label, value }, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: labels repeat, and the lines never change
            <div key={`${place} ${label}`} style={{ display: 'contents' }}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {url === null ? null : (
        <a href={url} target="_blank" rel="noopener noreferrer nofollow">
          {url}
        </a>
      )}
    </section>
  );
}

/** What the limits on money have left. The amount of this request is set aside already, and not in it. */
function Left({ gateId, passportId }: { readonly gateId: string; readonly passportId: string }): ReactNode {
  const usage = useUsage(gateId, passportId);
  const limits = (usage.data?.limits ?? []).filter(({ unit }) => unit === 'usd');
  if (limits.length === 0) return null;
  return (
    <details>
      <summary>
        {lowestOf(limits)} left after this, of {limits.length === 1 ? 'one limit' : `${limits.length} limits`}
      </summary>
      <Limits limits={limits} />
    </details>
  );
}

const lowestOf = (limits: readonly LimitUsage[]): string =>
  usd(Math.min(...limits.map(({ remaining, limit }) => remaining ?? limit)));
