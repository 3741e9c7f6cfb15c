// Types of the contract, for the check of types only: no module imports this one at run time.

/** @typedef {import('api').components['schemas']} Schemas */
/** @typedef {Schemas['Session']} Session */
/** @typedef {Schemas['AccountList']['accounts'][number]} Account */
/** @typedef {Schemas['OfferList']['invitations'][number]} Offer */
/** @typedef {Schemas['SessionList']['sessions'][number]} OpenSession */
/** @typedef {Schemas['Member']} Member */
/** @typedef {Schemas['Invitation']} Invitation */
/** @typedef {Schemas['AuditList']['entries'][number]} Entry */
/** @typedef {Schemas['Overview']} Overview */
/** @typedef {Schemas['Overview']['requests'][number]} RequestsOfDay */
/** @typedef {Schemas['Key']} Key */
/** @typedef {Schemas['RotatedKey']} NewKey */
/** @typedef {Schemas['UsageOfDay']} UsageOfDay */
/** @typedef {Schemas['WebhookDetail']} Webhook */
/** @typedef {Schemas['Delivery']} Delivery */
/** @typedef {Schemas['DeliveryDetail']} DeliveryDetail */
/** @typedef {Schemas['DeliveryTry']} Try */
/** @typedef {Omit<Schemas['Error'], 'error'> & { error: string }} ErrorBody */
export {};
