"""Problems and features from other libraries. An adapter imports its library only when it is called."""
