import { type ReactNode, useState } from 'react';
import { api, type Passport } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Form } from '../ui/form.tsx';
import { WalletName } from '../ui/names.tsx';
import { Problem } from '../ui/page.tsx';
import { WalletField } from '../ui/wallet-field.tsx';

/** The wallet of a passport, and the way into another one or out of it. */
export function PassportWallet({ passport }: { readonly passport: Passport }): ReactNode {
  const { may } = useSession();
  const [isMoving, setMoving] = useState(false);
  const isUsable = passport.status === 'active' || passport.status === 'suspended';
  return (
    <span className="row">
      {passport.wallet_id === null ? (
        <span className="soft">none</span>
      ) : (
        <WalletName id={passport.wallet_id} />
      )}
      {isUsable && may('wallets:manage') ? (
        <button type="button" className="button small" onClick={() => setMoving(true)}>
          {passport.wallet_id === null ? 'Put into a wallet' : 'Move to another wallet'}
        </button>
      ) : null}
      {isMoving ? <MoveDialog passport={passport} onClose={() => setMoving(false)} /> : null}
    </span>
  );
}

function MoveDialog({ passport, onClose }: { readonly passport: Passport; onClose(): void }): ReactNode {
  const [wallet, setWallet] = useState(passport.wallet_id ?? '');
  const isOut = wallet.trim() === '';
  const move = useAction({
    run: () => api.passports.setWallet(passport.passport_id, { wallet_id: isOut ? null : wallet.trim() }),
    changes: ['passports', 'wallets'],
    done: isOut ? 'It draws on no wallet any more.' : 'Moved. Sidecars follow as fast as a revocation.',
    onDone: onClose,
  });
  return (
    <Dialog title={`Wallet of ${passport.agent_name}`} onClose={onClose}>
      <p>What it has spent stays where it was taken from.</p>
      <Form error={move.error} onSubmit={() => move.mutate(undefined)}>
        <WalletField
          label="Wallet"
          param="wallet_id"
          hint="Empty: it is taken out, and no wallet binds it."
          value={wallet}
          onChange={setWallet}
        />
        {move.error === null ? null : <Problem error={move.error} />}
        <DialogActions
          onCancel={onClose}
          submit={isOut ? 'Take it out' : 'Move it'}
          isBusy={move.isPending}
          isDanger={isOut}
        />
      </Form>
    </Dialog>
  );
}
