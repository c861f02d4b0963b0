import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { send } from '../api/client.ts';
import { people, type SessionListItem } from '../api/people.ts';
import { sessionKey, useSession, useSetSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Id, Secret } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count, words } from '../ui/format.ts';
import { Card, Facts, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { chooseTheme, shownTheme } from '../ui/theme.ts';
import { Ago, Time } from '../ui/time.tsx';
import { OwnPasskeys } from './own-passkeys.tsx';
import { RetentionCard } from './retention.tsx';

export default function SettingsPage(): ReactNode {
  return (
    <>
      <PageHead title="Settings" actions={<LogOut />}>
        Your login, how the console looks, and what the account may use.
      </PageHead>
      <div className="columns">
        <You />
        <Look />
        <PlanUse />
        <RetentionCard />
        <Password />
        <SecondFactor />
        <OwnPasskeys />
        <Sessions />
      </div>
    </>
  );
}

function LogOut(): ReactNode {
  const setSession = useSetSession();
  const logOut = useAction({
    run: people.logOut,
    onDone: () => setSession(null),
  });
  return (
    <button
      type="button"
      className="button"
      disabled={logOut.isPending}
      onClick={() => logOut.mutate(undefined)}
    >
      Log out
    </button>
  );
}

function You(): ReactNode {
  const { session } = useSession();
  const { user, account } = session;
  return (
    <Card title="You">
      <Facts
        items={[
          ['Name', user.name],
          ['Email', user.email],
          ['Role', words(user.role)],
          ['Your id', <Id key="id" id={user.user_id} what="your id" />],
          ['Account', account.name],
          ['Account id', <Id key="account" id={account.account_id} what="account id" />],
          ['Session ends', <Time key="ends" at={session.expires_at} />],
        ]}
      />
    </Card>
  );
}

function Look(): ReactNode {
  const [theme, setTheme] = useState(shownTheme);
  return (
    <Card title="Appearance">
      <Select
        label="Theme"
        value={theme}
        onChange={(next) => setTheme(chooseTheme(next))}
        options={[
          ['system', 'As the system has it'],
          ['light', 'Light'],
          ['dark', 'Dark'],
        ]}
      />
      <p className="soft small">
        Times are in your zone, {Intl.DateTimeFormat().resolvedOptions().timeZone}; pointing at one shows UTC.
        Press Ctrl K anywhere to search.
      </p>
    </Card>
  );
}

/** The plan limits in the headers of an answer; null: no limit. */
async function readPlanUse(): Promise<{ limit: number; remaining: number; resetAt: string } | null> {
  const { headers } = await send({ method: 'GET', path: '/v1/session' });
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) =>
    headers.get(`x-ratelimit-${name}`),
  );
  if (!limit || !remaining || !reset) return null;
  return {
    limit: Number(limit),
    remaining: Number(remaining),
    resetAt: new Date(Number(reset) * 1_000).toISOString(),
  };
}

function PlanUse(): ReactNode {
  const { session } = useSession();
  const query = useQuery({ queryKey: ['plan'], queryFn: readPlanUse, refetchInterval: 30_000 });
  const use = query.data;
  return (
    <Card title={`Plan: ${words(session.account.plan)}`}>
      {query.isPending ? (
        <Waiting what="the use of the plan" />
      ) : query.isError ? (
        <Problem error={query.error} onRetry={() => void query.refetch()} />
      ) : use === null || use === undefined ? (
        <p>Requests to the API are not limited.</p>
      ) : (
        <>
          <div
            className={`progress ${use.remaining === 0 ? 'bad' : use.remaining < use.limit / 5 ? 'warn' : ''}`}
          >
            <div style={{ width: `${((use.limit - use.remaining) / use.limit) * 100}%` }} />
          </div>
          <p>
            {count(use.limit - use.remaining)} of {count(use.limit)} requests are used; the window ends{' '}
            <Ago at={use.resetAt} />. Decisions of sidecars do not count.
          </p>
        </>
      )}
    </Card>
  );
}

function Password(): ReactNode {
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const client = useQueryClient();
  const change = useAction({
    run: () => people.changePassword({ current_password: current, new_password: next }),
    done: 'Password changed. Your other sessions have ended.',
    onDone: () => {
      setCurrent('');
      setNext('');
      void client.invalidateQueries({ queryKey: sessionKey });
    },
  });
  return (
    <Card title="Password">
      <Form error={change.error} onSubmit={() => change.mutate(undefined)}>
        <TextField
          label="Password now"
          param="current_password"
          type="password"
          autoComplete="current-password"
          required
          value={current}
          onChange={setCurrent}
        />
        <TextField
          label="New password"
          param="new_password"
          hint="At least 12 characters."
          type="password"
          autoComplete="new-password"
          required
          minLength={12}
          maxLength={256}
          value={next}
          onChange={setNext}
        />
        {change.error === null ? null : <Problem error={change.error} />}
        <div className="actions">
          <button type="submit" className="button" disabled={change.isPending}>
            Change the password
          </button>
        </div>
      </Form>
    </Card>
  );
}

function SecondFactor(): ReactNode {
  const { session } = useSession();
  const [code, setCode] = useState('');
  const [isRemoving, setRemoving] = useState(false);
  const client = useQueryClient();
  const refresh = () => void client.invalidateQueries({ queryKey: sessionKey });
  const start = useAction({ run: people.startTotp });
  const confirm = useAction({ run: () => people.confirmTotp(code.trim()), onDone: refresh });
  const removed = () => {
    setRemoving(false);
    start.reset();
    confirm.reset();
    refresh();
  };
  const codes = confirm.data?.recovery_codes;
  return (
    <Card title="Second factor">
      {codes !== undefined ? (
        <Secret label="Recovery codes" text={codes.join('\n')}>
          Each opens the login once without your phone. They cannot be shown again.
        </Secret>
      ) : null}
      {session.user.totp_enabled ? (
        <div className="row between">
          <span>On: each login needs a code of your authenticator app.</span>
          <button type="button" className="button danger" onClick={() => setRemoving(true)}>
            Switch off
          </button>
        </div>
      ) : start.data === undefined ? (
        <div className="row between">
          <span>Off. A stolen password is enough to log in as you.</span>
          <button
            type="button"
            className="button primary"
            disabled={start.isPending}
            onClick={() => start.mutate(undefined)}
          >
            Set it up
          </button>
        </div>
      ) : (
        <Form error={confirm.error} onSubmit={() => confirm.mutate(undefined)}>
          <Secret label="Secret" text={start.data.secret}>
            Type it into your authenticator app, or <a href={start.data.uri}>open the app on this device</a>.
          </Secret>
          <TextField
            label="Code that the app shows"
            param="code"
            autoComplete="one-time-code"
            inputMode="numeric"
            required
            value={code}
            onChange={setCode}
          />
          {confirm.error === null ? null : <Problem error={confirm.error} />}
          <div className="actions">
            <button type="submit" className="button primary" disabled={confirm.isPending}>
              Switch on
            </button>
          </div>
        </Form>
      )}
      {start.error === null ? null : <Problem error={start.error} />}
      {isRemoving ? <RemoveSecondFactor onClose={() => setRemoving(false)} onDone={removed} /> : null}
    </Card>
  );
}

function RemoveSecondFactor({ onClose, onDone }: { onClose(): void; onDone(): void }): ReactNode {
  const [password, setPassword] = useState('');
  const remove = useAction({
    run: () => people.removeTotp(password),
    done: 'The second factor is off.',
    onDone,
  });
  return (
    <Dialog title="Switch off the second factor?" onClose={onClose}>
      <p>A stolen password is then enough to log in as you.</p>
      <Form error={remove.error} onSubmit={() => remove.mutate(undefined)}>
        <TextField
          label="Your password"
          param="password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={setPassword}
        />
        {remove.error === null ? null : <Problem error={remove.error} />}
        <DialogActions onCancel={onClose} submit="Switch it off" isBusy={remove.isPending} isDanger />
      </Form>
    </Dialog>
  );
}

/** Enough to recognise a browser by. */
function browserOf(agent: string | null): string {
  const name = /Edg|Firefox|OPR|Chrome|Safari/.exec(agent ?? '')?.[0];
  const system = /Android|iPhone|iPad|Mac OS X|Windows|Linux/.exec(agent ?? '')?.[0];
  return name === undefined ? 'A program' : `${name}${system === undefined ? '' : ` on ${system}`}`;
}

function Sessions(): ReactNode {
  const [ended, setEnded] = useState<SessionListItem | null>(null);
  const query = useQuery({ queryKey: ['sessions'], queryFn: people.sessions });
  const end = useAction({
    run: (id: string) => people.endSession(id),
    changes: ['sessions'],
    done: 'That session has ended.',
    onDone: () => setEnded(null),
  });
  return (
    <Card title="Where you are logged in">
      {query.isPending ? <Waiting what="sessions" /> : null}
      {query.isError ? <Problem error={query.error} onRetry={() => void query.refetch()} /> : null}
      <ul className="stack tight">
        {(query.data?.items ?? []).map((each) => (
          <li key={each.session_id} className="row between">
            <span>
              {browserOf(each.user_agent)}, seen <Ago at={each.last_seen_at} />
              {each.is_current ? ' (this session)' : ''}
              <br />
              <span className="soft small">
                Logged in <Time at={each.created_at} />
              </span>
            </span>
            {each.is_current ? null : (
              <button type="button" className="button small danger" onClick={() => setEnded(each)}>
                End
              </button>
            )}
          </li>
        ))}
      </ul>
      {ended === null ? null : (
        <Dialog title="End this session?" onClose={() => setEnded(null)}>
          <p>Whoever uses it has to log in again.</p>
          <Form error={end.error} onSubmit={() => end.mutate(ended.session_id)}>
            {end.error === null ? null : <Problem error={end.error} />}
            <DialogActions onCancel={() => setEnded(null)} submit="End it" isBusy={end.isPending} isDanger />
          </Form>
        </Dialog>
      )}
    </Card>
  );
}
