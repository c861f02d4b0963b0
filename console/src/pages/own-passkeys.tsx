import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { type Passkey, passkeys } from '../api/passkeys.ts';
import { people } from '../api/people.ts';
import { useAction } from '../ui/action.ts';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Card, Problem, Waiting } from '../ui/page.tsx';
import { PasskeyProblem } from '../ui/passkey-problem.tsx';
import { Ago, Time } from '../ui/time.tsx';

const changes = ['passkeys'];

export function OwnPasskeys(): ReactNode {
  const methods = useQuery({ queryKey: ['login-methods'], queryFn: people.loginMethods });
  const query = useQuery({ queryKey: changes, queryFn: passkeys.list });
  const [open, setOpen] = useState<'new' | Passkey | null>(null);
  const close = () => setOpen(null);
  const items = query.data?.items ?? [];
  return (
    <Card title="Passkeys">
      {query.isPending ? <Waiting what="passkeys" /> : null}
      {query.isError ? <Problem error={query.error} onRetry={() => void query.refetch()} /> : null}
      <p className="soft small">
        {methods.data?.passkeys === false
          ? 'Browsers keep no passkeys for this address: it needs a host name and https.'
          : 'Log in with a fingerprint, a face or a PIN of your device, without password and code.'}
      </p>
      <ul className="stack tight">
        {items.map((each) => (
          <li key={each.passkey_id} className="row between">
            <span>
              {each.name}
              <br />
              <span className="soft small">
                Added <Time at={each.created_at} />, {each.last_used_at === null ? 'never used' : 'used '}
                {each.last_used_at === null ? null : <Ago at={each.last_used_at} />}
              </span>
            </span>
            <button
              type="button"
              className="button small"
              aria-label={`Change the passkey ${each.name}`}
              onClick={() => setOpen(each)}
            >
              Change
            </button>
          </li>
        ))}
      </ul>
      {methods.data?.passkeys === true ? (
        <div className="actions">
          <button type="button" className="button" onClick={() => setOpen('new')}>
            Add a passkey
          </button>
        </div>
      ) : null}
      {open === 'new' ? <NewPasskey onClose={close} /> : null}
      {open === null || open === 'new' ? null : <ChangePasskey passkey={open} onClose={close} />}
    </Card>
  );
}

function NewPasskey({ onClose }: { onClose(): void }): ReactNode {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const add = useAction({
    run: () => passkeys.add({ name: name.trim(), password }),
    changes,
    done: 'The passkey was added.',
    onDone: onClose,
  });
  return (
    <Dialog title="Add a passkey" onClose={onClose}>
      <Form error={add.error} onSubmit={() => add.mutate(undefined)}>
        <TextField
          label="Name of the passkey"
          param="name"
          hint="Such as the device that keeps it."
          required
          maxLength={200}
          value={name}
          onChange={setName}
        />
        <TextField
          label="Your password"
          param="password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          onChange={setPassword}
        />
        {add.error === null ? null : <PasskeyProblem error={add.error} />}
        <DialogActions onCancel={onClose} submit="Add it" isBusy={add.isPending} />
      </Form>
    </Dialog>
  );
}

function ChangePasskey({ passkey, onClose }: { readonly passkey: Passkey; onClose(): void }): ReactNode {
  const id = passkey.passkey_id;
  const [name, setName] = useState(passkey.name);
  const rename = useAction({ run: passkeys.rename, changes, done: 'Renamed.', onDone: onClose });
  const remove = useAction({
    run: passkeys.remove,
    changes,
    done: 'The passkey was removed.',
    onDone: onClose,
  });
  const error = rename.error ?? remove.error;
  return (
    <Dialog title={passkey.name} onClose={onClose}>
      <Form error={rename.error} onSubmit={() => rename.mutate({ id, name: name.trim() })}>
        <TextField
          label="Name of the passkey"
          param="name"
          required
          maxLength={200}
          value={name}
          onChange={setName}
        />
        {error === null ? null : <Problem error={error} />}
        <DialogActions onCancel={onClose} submit="Save the name" isBusy={rename.isPending} />
      </Form>
      <div className="row">
        <button
          type="button"
          className="button danger"
          disabled={remove.isPending}
          onClick={() => remove.mutate(id)}
        >
          Remove
        </button>
      </div>
    </Dialog>
  );
}
