import { type ReactNode, useState } from 'react';
import { useAddress } from '../api/address.ts';
import { useCountedList } from '../api/lists.ts';
import { type Invitation, isUnconfirmed, people, type Role, roles, type User } from '../api/people.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Secret } from '../ui/copy.tsx';
import { DataTable } from '../ui/data-table.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { words } from '../ui/format.ts';
import { useNameFilter } from '../ui/name-filter.tsx';
import { KnownName } from '../ui/names.tsx';
import { Empty, PageHead, Problem } from '../ui/page.tsx';
import { Ago, Time } from '../ui/time.tsx';

const roleWords: Readonly<Record<Role, string>> = {
  owner: 'everything, people and signing keys included',
  admin: 'everything that the owner leaves to admins',
  approver: 'look at gates and agents, and answer approvals',
  auditor: 'read records, audit and settings; change nothing',
  read_only: 'look at passports, gates and records; change nothing',
};

export default function PeoplePage(): ReactNode {
  const { search, set } = useAddress();
  const { session } = useSession();
  const named = useNameFilter('A part of name or address');
  const source = useCountedList<User>(['people', 'list', named.part], (page) =>
    people.list({ ...page, ...named.query }),
  );
  const [changed, setChanged] = useState<User | null>(null);
  const [link, setLink] = useState<Invitation | null>(null);
  const invite = (
    <button type="button" className="button primary" onClick={() => set({ new: '1' })}>
      Invite somebody
    </button>
  );
  return (
    <>
      <PageHead title="People" actions={invite}>
        Who may use this console, and for what.
      </PageHead>
      {named.field}
      <DataTable
        label="People"
        source={source}
        empty={named.orNone(
          <Empty title="Nobody yet" action={invite}>
            Invite the people who approve requests and read records.
          </Empty>,
        )}
        columns={[
          {
            head: 'Person',
            width: 'minmax(0, 2fr)',
            cell: (row) => (
              <div className="two-lines">
                <span>
                  {row.name}
                  {row.user_id === session.user.user_id ? ' (you)' : ''}
                </span>
                <span>{row.email}</span>
              </div>
            ),
          },
          { head: 'Role', width: '96px', cell: (row) => words(row.role) },
          {
            head: 'Status',
            width: '100px',
            isWideOnly: true,
            cell: (row) => <Badge value={isUnconfirmed(row) ? 'unconfirmed' : row.status} />,
          },
          {
            head: 'Second factor',
            width: '110px',
            isWideOnly: true,
            cell: (row) => (row.totp_enabled ? 'on' : 'off'),
          },
          {
            head: 'Last login',
            width: '110px',
            isWideOnly: true,
            cell: (row) => <Ago at={row.last_login_at} />,
          },
          {
            head: 'Actions',
            width: '84px',
            cell: (row) => (
              <button
                type="button"
                className="button small"
                aria-label={`Change ${row.email}`}
                onClick={() => setChanged(row)}
              >
                Change
              </button>
            ),
          },
        ]}
      />
      {search['new'] === '1' ? (
        <InviteDialog
          onClose={() => set({ new: undefined })}
          onInvited={(invitation) => {
            set({ new: undefined });
            setLink(invitation);
          }}
        />
      ) : null}
      {changed === null ? null : (
        <ChangeDialog user={changed} onClose={() => setChanged(null)} onInvited={setLink} />
      )}
      {link === null ? null : <LinkDialog invitation={link} onClose={() => setLink(null)} />}
    </>
  );
}

function RoleChoice({ value, onChange }: { readonly value: Role; onChange(role: Role): void }): ReactNode {
  const { session } = useSession();
  // No role above the user's own.
  const given = roles.slice(roles.indexOf(session.user.role));
  return (
    <Select
      label="Role"
      param="role"
      hint={`May ${roleWords[value]}.`}
      value={value}
      onChange={(next) => onChange(roles.find((each) => each === next) ?? 'read_only')}
      options={given.map((role) => [role, words(role)] as const)}
    />
  );
}

function InviteDialog({
  onClose,
  onInvited,
}: {
  onClose(): void;
  onInvited(invitation: Invitation): void;
}): ReactNode {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Role>('approver');
  const [isMailed, setMailed] = useState(false);
  const invite = useAction({
    run: () => people.invite({ email: email.trim(), role, ...(isMailed ? { delivery: 'mail' } : {}) }),
    changes: ['people'],
    onDone: onInvited,
  });
  return (
    <Dialog title="Invite somebody" onClose={onClose}>
      <Form error={invite.error} onSubmit={() => invite.mutate(undefined)}>
        <TextField label="Email" param="email" type="email" required value={email} onChange={setEmail} />
        <RoleChoice value={role} onChange={setRole} />
        <Check
          label="Mail the link, and show it to nobody"
          hint="Then this person counts as another one than you where a gate asks for that."
          checked={isMailed}
          onChange={setMailed}
        />
        {invite.error === null ? null : <Problem error={invite.error} />}
        <DialogActions onCancel={onClose} submit="Make the link" isBusy={invite.isPending} />
      </Form>
    </Dialog>
  );
}

function LinkDialog({
  invitation,
  onClose,
}: {
  readonly invitation: Invitation;
  onClose(): void;
}): ReactNode {
  const { mail, invitation_url: url } = invitation;
  return (
    <Dialog title={`Invitation of ${invitation.user.email}`} onClose={onClose} className="wide">
      {mail === undefined ? null : (
        <p>
          {mail.sent
            ? `The link was mailed to ${invitation.user.email}.`
            : `The mail could not be sent: ${mail.error?.detail}. Make a new link under People.`}
        </p>
      )}
      {url === undefined ? null : (
        <>
          <p>
            {mail?.sent ? 'Or send' : 'Send'} this link yourself, by a way that only this person reads. It
            works once, until <Time at={invitation.expires_at} />.
          </p>
          <Secret label="Link" text={url}>
            It cannot be shown again; a new one can be made under People.
          </Secret>
        </>
      )}
      <div className="actions">
        <button type="button" className="button primary" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}

function ChangeDialog({
  user,
  onClose,
  onInvited,
}: {
  readonly user: User;
  onClose(): void;
  onInvited(invitation: Invitation): void;
}): ReactNode {
  const [role, setRole] = useState<Role>(user.role);
  const changes = ['people'];
  const id = user.user_id;
  const save = useAction({
    run: (change: { readonly role?: Role; readonly status?: 'active' | 'disabled' }) =>
      people.update(id, change),
    changes,
    done: 'Saved. Their sessions have ended.',
    onDone: onClose,
  });
  const invite = useAction({
    run: () => people.inviteAgain(id),
    changes,
    onDone: (invitation) => {
      onClose();
      onInvited(invitation);
    },
  });
  const remove = useAction({ run: () => people.remove(id), changes, done: 'Removed.', onDone: onClose });
  const confirm = useAction({
    run: () => people.confirm(id),
    changes,
    done: 'Confirmed. They may answer approvals now.',
    onDone: onClose,
  });
  const error = save.error ?? invite.error ?? remove.error ?? confirm.error;
  return (
    <Dialog title={user.name} onClose={onClose}>
      {user.invited_by === null ? null : (
        <p className="soft">
          Invited by <KnownName id={user.invited_by} orId />.
          {isUnconfirmed(user)
            ? ' Nobody has confirmed yet that this is a person of their own, so they answer no approvals.'
            : ''}
        </p>
      )}
      <Form error={save.error} onSubmit={() => save.mutate({ role })}>
        <RoleChoice value={role} onChange={setRole} />
        {error === null ? null : <Problem error={error} />}
        <DialogActions
          onCancel={onClose}
          submit="Save the role"
          isBusy={save.isPending || role === user.role}
        />
      </Form>
      <div className="row">
        {user.status === 'disabled' ? (
          <button type="button" className="button" onClick={() => save.mutate({ status: 'active' })}>
            Enable
          </button>
        ) : (
          <button type="button" className="button danger" onClick={() => save.mutate({ status: 'disabled' })}>
            Disable
          </button>
        )}
        {isUnconfirmed(user) ? (
          <button type="button" className="button" onClick={() => confirm.mutate(undefined)}>
            Confirm
          </button>
        ) : null}
        {user.status === 'invited' ? (
          <button type="button" className="button" onClick={() => invite.mutate(undefined)}>
            New link
          </button>
        ) : null}
        <button type="button" className="button danger" onClick={() => remove.mutate(undefined)}>
          Remove
        </button>
      </div>
    </Dialog>
  );
}
