import { sealedChannelTargets } from './channels/sealed-channel-targets.ts';
import { sealedAnswers } from './creation/sealed-answers.ts';
import { receiptKeys, type SealedPlace } from './master-key/sealed-place.ts';
import { sealedArtifacts } from './oauth/sealed-artifacts.ts';
import { sealedSecondFactors } from './people/sealed-second-factors.ts';
import { sealedLogKeys, sealedSigningKeys } from './signing/sealed-signing-keys.ts';
import { sealedWebhookSecrets } from './webhooks/sealed-webhook-secrets.ts';

/** All that the database has under MASTER_KEY, what everything hangs on first. */
export const sealedPlaces: readonly SealedPlace[] = [
  sealedSigningKeys,
  sealedLogKeys,
  sealedWebhookSecrets,
  sealedChannelTargets,
  sealedSecondFactors,
  receiptKeys,
  sealedArtifacts,
  sealedAnswers,
];
