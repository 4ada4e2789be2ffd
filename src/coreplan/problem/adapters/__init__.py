"""Problems and features from other libraries. Each needs its library only when it is called."""
