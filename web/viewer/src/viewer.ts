/** What this project uses of Neuroglancer's viewer, whose own types are not published as stable. */

export interface ManagedLayer {
  readonly name: string;
  /** null until its source is known. */
  readonly layer: unknown;
}

export interface Viewer {
  readonly state: {
    reset(): void;
    restoreState(json: unknown): void;
    toJSON(): { readonly [member: string]: unknown };
    readonly changed: { add(listener: () => void): () => void };
  };
  readonly display: { draw(): void };
  /** How much its chunks are wanted: `Number.NEGATIVE_INFINITY` gives up what it waits for. */
  readonly visibility: { value: number };
  readonly mouseState: {
    readonly active: boolean;
    /** Where the pointer is, in the viewer's dimensions (x, y, z of voxels); x first, as they are listed. */
    readonly unsnappedPosition: Float32Array;
    updateUnconditionally(): boolean;
  };
  readonly layerManager: {
    readonly managedLayers: readonly ManagedLayer[];
    getLayerByName(name: string): ManagedLayer | undefined;
    removeManagedLayer(layer: ManagedLayer): void;
  };
  readonly layerSpecification: {
    add(layer: ManagedLayer, index?: number): void;
  };
}
