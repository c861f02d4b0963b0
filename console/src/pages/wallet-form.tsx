import { type ReactNode, useState } from 'react';
import { api, type Wallet, type WalletLimits } from '../api/client.ts';
import { useAction } from '../ui/action.ts';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Problem } from '../ui/page.tsx';
import { WalletField } from '../ui/wallet-field.tsx';
import { type WalletLimitName, walletLimits } from '../ui/wallet-limits.tsx';

type Texts = Readonly<Record<WalletLimitName, string>>;

const textsOf = (limits: WalletLimits): Texts =>
  Object.fromEntries(walletLimits.map(([name]) => [name, limits[name]?.toString() ?? ''])) as Texts;

/** An empty field: no limit. */
const limitsOf = (texts: Texts): Record<WalletLimitName, number | null> =>
  Object.fromEntries(
    walletLimits.map(([name]) => [name, texts[name].trim() === '' ? null : Number(texts[name])]),
  ) as Record<WalletLimitName, number | null>;

/** Makes a wallet, or changes one: also its place in the tree. */
export function WalletForm({
  wallet,
  parent = '',
  onClose,
  onDone,
}: {
  /** Null: a new one. */
  readonly wallet: Wallet | null;
  /** Where a new one is made. */
  readonly parent?: string;
  onClose(): void;
  onDone(wallet: Wallet): void;
}): ReactNode {
  const [name, setName] = useState(wallet?.name ?? '');
  const [above, setAbove] = useState(wallet === null ? parent : (wallet.parent_wallet_id ?? ''));
  const [share, setShare] = useState<string>(wallet?.share ?? 'pot');
  const [alertAt, setAlertAt] = useState(String(Math.round((wallet?.alert_at ?? 0.8) * 10_000) / 100));
  const [limits, setLimits] = useState(textsOf(wallet?.limits ?? {}));
  const save = useAction({
    run: () => {
      const body = {
        name: name.trim(),
        parent_wallet_id: above.trim() === '' ? null : above.trim(),
        share: share === 'reserved' ? ('reserved' as const) : ('pot' as const),
        alert_at: Number(alertAt) / 100,
        limits: limitsOf(limits),
      };
      return wallet === null ? api.wallets.create(body) : api.wallets.update(wallet.wallet_id, body);
    },
    changes: ['wallets', 'names'],
    done: wallet === null ? 'Wallet created.' : 'Saved. Sidecars follow within a second.',
    onDone,
  });
  return (
    <Dialog title={wallet === null ? 'Create a wallet' : `Change ${wallet.name}`} onClose={onClose}>
      <Form error={save.error} onSubmit={() => save.mutate(undefined)}>
        <TextField label="Name" param="name" required maxLength={200} value={name} onChange={setName} />
        <WalletField
          label="Below"
          param="parent_wallet_id"
          hint="Empty: it is the root of a tree. A tree is at most five deep."
          value={above}
          onChange={setAbove}
        />
        <div className="form-grid">
          {walletLimits.map(([limit, label]) => (
            <TextField
              key={limit}
              label={label}
              param={`limits.${limit}`}
              type="number"
              min={0}
              step="any"
              placeholder="no limit"
              value={limits[limit]}
              onChange={(next) => setLimits({ ...limits, [limit]: next })}
            />
          ))}
        </div>
        <div className="form-grid">
          <Select
            label="Share"
            param="share"
            hint="Reserved limits are set aside in the wallet above, for this one alone."
            value={share}
            onChange={setShare}
            options={[
              ['pot', 'Pot: first come, first served'],
              ['reserved', 'Reserved'],
            ]}
          />
          <TextField
            label="Alert at percent"
            param="alert_at"
            hint="Of each limit of money."
            type="number"
            min={0}
            max={100}
            step="any"
            required
            value={alertAt}
            onChange={setAlertAt}
          />
        </div>
        {save.error === null ? null : <Problem error={save.error} />}
        <DialogActions
          onCancel={onClose}
          submit={wallet === null ? 'Create' : 'Save'}
          isBusy={save.isPending}
        />
      </Form>
    </Dialog>
  );
}
