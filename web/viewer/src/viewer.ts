/** What this project uses of Neuroglancer's viewer, whose own types are not published as stable. */

export interface ManagedLayer {
  readonly name: string;
  /** null until its source is known. */
  readonly layer: unknown;
}

export interface Viewer {
  readonly state: {
    restoreState(json: unknown): void;
    toJSON(): { readonly [member: string]: unknown };
    readonly changed: { add(listener: () => void): () => void };
  };
  readonly display: { draw(): void };
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
    getLayer(name: string, json: unknown): ManagedLayer;
    add(layer: ManagedLayer, index?: number): void;
  };
}
